//! Loop of one run: from its start to the last job, or to Ctrl-C.
//!
//! The jobs of a run belong to an action, which stays open until all of them are over, so that a resumed run
//! can add to it. If a later run finds new work after the action is over, such as corrected or retried lines,
//! it uses a further action. The store identifies submitted jobs by id, never by their number.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use outflow::{Outflow, SystemClock, Upstream};
use outflow_bulk::{
    BulkEvent, JobDestination, JobSubmission, Lane, RunningEngine, StoreEngine, TenantBounds, Workload,
};
use outflow_core::{Clock, HealthSnapshot, HealthState, Nanos, TransitionReason};
use outflow_store::{
    ActionSpec, ActionStore, AnyStore, BatchPosition, DeadLetterFilter, DeadLetterStore, JobQueue, Name, PageRequest,
};
use tokio::sync::broadcast::{Receiver, error::RecvError};
use tokio::time::timeout;

use super::line_results::{FIRST_ROUND, LineResults};
use super::progress_bars::{ProgressBars, RunProgress};
use super::results::ResultWriter;
use super::summary::RunSummary;
use super::validate::ValidatedFile;
use super::{FailedLines, RETENTION, RunContext};
use crate::commands::bulk::input::JobInput;
use crate::terminal::{Terminal, count, say};

/// End of a run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum LoopEnd {
    /// All jobs are over.
    Finished,
    /// The rest waits for APIs that are no longer configured.
    Unserved(Vec<String>),
    /// The user pressed Ctrl-C.
    Interrupted,
    /// No job has ended for the time limit of an action, because the APIs fail.
    Stalled(Duration),
}

/// One run of a file.
pub(super) struct RunLoop<'a> {
    store: Arc<AnyStore>,
    client: &'a Outflow,
    file: &'a ValidatedFile<'a>,
    failed_lines: FailedLines,
    results: LineResults<'a>,
    /// Number and name of the current action.
    action: (u32, Name),
    clock: SystemClock,
    begun: Nanos,
    /// Finished jobs at its start.
    before: u64,
    bounds: Option<TenantBounds>,
    /// Bounds other than limits that held jobs back, each reported once.
    bottlenecks: BTreeSet<String>,
    /// Attempts of ended jobs before this run, and throttles before its action.
    attempts_before: u64,
    throttles_before: u64,
    unfinished: UnfinishedCounts,
    progress: RunProgress,
    /// Number of ended jobs, and the time since which it has not changed.
    progressed: (u64, Nanos),
}

/// Returns true if the API fails: no call can start but a probe, and neither the API nor an operator asked for it.
fn is_failing(upstream: &Upstream) -> bool {
    let states = upstream.report().health;
    let fails = |snapshot: &HealthSnapshot| {
        let is_open = matches!(snapshot.state, HealthState::Normal | HealthState::Throttle);
        let is_asked = matches!(
            snapshot.reason,
            Some(TransitionReason::RetryAfter | TransitionReason::Banned)
        );
        !is_open && !is_asked && snapshot.hold.is_none()
    };
    states.iter().all(|health| fails(&health.snapshot))
}

/// Attempts and throttles of jobs that are not over.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct UnfinishedCounts {
    pub(super) attempts: u64,
    pub(super) throttles: u64,
}

/// Lines of a file that are not over.
#[derive(Default)]
struct RemainingLines {
    /// Work of the lines.
    workload: Workload,
    /// Failed lines that are retried.
    retried: Vec<u64>,
}

impl<'a> RunLoop<'a> {
    /// Reads the results of earlier runs.
    pub(super) async fn new(
        context: &RunContext<'a>,
        store: Arc<AnyStore>,
        failed_lines: FailedLines,
        writer: ResultWriter,
    ) -> anyhow::Result<Self> {
        let clock = SystemClock::new();
        let mut run = Self {
            results: LineResults::new(&store, context.file, writer),
            store,
            client: context.client,
            file: context.file,
            failed_lines,
            action: (1, action_name(context.file.input, 1)?),
            begun: clock.now(),
            clock,
            before: 0,
            bounds: None,
            bottlenecks: BTreeSet::new(),
            attempts_before: 0,
            throttles_before: 0,
            unfinished: UnfinishedCounts::default(),
            progress: RunProgress::default(),
            progressed: (0, Nanos::ZERO),
        };
        run.skip_finished_actions().await?;
        run.results.writer.check_end()?;
        run.before = run.results.counted.over();
        run.attempts_before = run.results.counted.attempts;
        Ok(run)
    }

    /// Reads results up to the first action that is not over or does not exist.
    async fn skip_finished_actions(&mut self) -> anyhow::Result<()> {
        while let Some(report) = self.store.action(&self.action.1).await? {
            let throttles = self.results.counted.throttles;
            self.results.read_outcomes(&self.action.1).await?;
            if !report.stage.is_over() {
                self.throttles_before = throttles;
                break;
            }
            self.throttles_before = self.results.counted.throttles;
            let next = self.action.0 + 1;
            self.action = (next, action_name(self.file.input, next)?);
        }
        Ok(())
    }

    /// Returns true if jobs are left.
    pub(super) async fn has_work(&self) -> anyhow::Result<bool> {
        Ok(self.remaining().workload.jobs() > 0 || self.open_jobs().await? > 0)
    }

    /// Returns the number of jobs that wait or are in flight.
    async fn open_jobs(&self) -> anyhow::Result<u64> {
        let report = self.store.action(&self.action.1).await?;
        Ok(report.map_or(0, |report| report.counts.open()))
    }

    /// Returns the lines that are not over.
    fn remaining(&self) -> RemainingLines {
        let mut lines = RemainingLines::default();
        for line in &self.file.lines {
            if let Some(round) = self.results.next_round(line, self.failed_lines) {
                line.add_to(&mut lines.workload);
                lines.retried.extend((round > FIRST_ROUND).then_some(line.number));
            }
        }
        lines
    }

    /// Runs all jobs that are left.
    pub(super) async fn work(
        &mut self,
        bulk: &RunningEngine,
        all: &Workload,
        terminal: Terminal,
    ) -> anyhow::Result<LoopEnd> {
        // The wait for earlier calls is no part of the duration.
        self.begun = self.clock.now();
        self.progressed = (self.before, self.begun);
        let wall = self.clock.wall();
        let settings = bulk.engine().settings();
        let left = self.remaining();
        let bounds = TenantBounds::new(&left.workload, self.client, &settings, wall);
        self.begin(all, &left.retried).await?;
        let mut bars = ProgressBars::new(terminal, all, &bounds);
        self.bounds = Some(bounds);
        let mut events = bulk.engine().events();
        let mut all_submitted = self.submit(bulk.engine()).await?;
        loop {
            let over = self.open_jobs().await? == 0;
            if over {
                self.finish().await?;
            }
            self.results.read_outcomes(&self.action.1).await?;
            let spent = self.clock.now().since(self.begun);
            if bars.is_due(spent) {
                self.progress = self.read_progress(bulk.engine()).await?;
                bars.show(&self.results.counted, self.before, spent, self.progress.clone());
            }
            self.unfinished = self.count_unfinished(bulk.engine()).await?;
            self.report_bottlenecks(bulk.engine(), &bars).await?;
            let missing = self.unserved().await?;
            if over && !all_submitted {
                self.skip_finished_actions().await?;
                all_submitted = self.submit(bulk.engine()).await?;
            } else if over || !missing.is_empty() {
                bars.wipe();
                return Ok(if over {
                    LoopEnd::Finished
                } else {
                    LoopEnd::Unserved(missing)
                });
            } else if self.is_stalled(settings.action_timeout).await? {
                bars.wipe();
                return Ok(LoopEnd::Stalled(settings.action_timeout));
            } else if let Ok(message) = timeout(POLL_PERIOD, next_error(&mut events)).await {
                bars.say(&message);
            }
        }
    }

    /// Returns true if no job has ended for this long, and every API with jobs fails. Jobs that wait for a limit,
    /// or for a time that the API named, have a start, however late.
    async fn is_stalled(&mut self, longest: Duration) -> anyhow::Result<bool> {
        let (ended, now) = (self.results.counted.over(), self.clock.now());
        if ended != self.progressed.0 {
            self.progressed = (ended, now);
        }
        if now.since(self.progressed.1) < longest {
            return Ok(false);
        }
        let lanes = self.store.lanes().await?;
        let fails = |lane: &Name| match Lane::from_name(lane) {
            Lane::Api { api, .. } => self.client.upstream(&api).is_some_and(|upstream| is_failing(&upstream)),
            Lane::Handler(_) => false,
        };
        Ok(!lanes.is_empty() && lanes.iter().all(fails))
    }

    /// Reads the remaining time, and what jobs wait for.
    async fn read_progress(&self, engine: &StoreEngine) -> anyhow::Result<RunProgress> {
        let Some(progress) = engine.progress(&self.action.1).await? else {
            return Ok(RunProgress::default());
        };
        let page = PageRequest {
            after: None,
            max: SEARCHED_TENANTS,
        };
        let tenants = engine.congestion_summary(page).await?.groups.into_iter();
        Ok(RunProgress {
            eta: progress.eta,
            tenants: tenants.filter_map(|state| Some((state.group, state.eta?))).collect(),
            waits: progress.waits,
        })
    }

    /// Counts attempts and throttles of jobs that are not over; the others have outcomes.
    async fn count_unfinished(&self, engine: &StoreEngine) -> anyhow::Result<UnfinishedCounts> {
        let report = self.store.action(&self.action.1).await?;
        let throttles = report.map_or(0, |report| report.counts.throttles);
        let counted = &self.results.counted;
        let all = self.attempts_before.saturating_add(engine.attempts());
        Ok(UnfinishedCounts {
            attempts: all.saturating_sub(counted.attempts),
            throttles: throttles.saturating_sub(counted.throttles.saturating_sub(self.throttles_before)),
        })
    }

    /// Says once what holds jobs back in place of limits. One look may miss it, so every poll looks.
    async fn report_bottlenecks(&mut self, engine: &StoreEngine, bars: &ProgressBars) -> anyhow::Result<()> {
        let report = self.store.action(&self.action.1).await?;
        let queued = report.map_or(0, |report| report.counts.queued);
        for sentence in engine.bottlenecks(queued) {
            if self.bottlenecks.insert(sentence.clone()) {
                bars.say(&sentence);
            }
        }
        Ok(())
    }

    /// Prints the progress of earlier runs, and reopens retried lines.
    async fn begin(&mut self, all: &Workload, retried: &[u64]) -> anyhow::Result<()> {
        if !retried.is_empty() {
            say!("retrying {}", count(retried.len(), "failed job", "failed jobs"));
            self.results.reopen(retried);
            self.before = self.results.counted.over();
            // The results hold their errors.
            self.store.purge(&DeadLetterFilter::All).await?;
        }
        if self.before > 0 {
            let (before, all) = (self.before, all.jobs().max(self.before));
            say!("{before} of {all} jobs are over already; resuming");
        }
        Ok(())
    }

    /// Submits all jobs that are not over; the store knows earlier ones by their ids. Returns false if the
    /// action is closed, and the rest has to go to the next one.
    async fn submit(&self, engine: &StoreEngine) -> anyhow::Result<bool> {
        let specs = self.file.lines.iter().filter_map(|line| {
            let round = self.results.next_round(line, self.failed_lines)?;
            self.results.job(line, round)
        });
        let mut specs = specs.peekable();
        let mut all_submitted = true;
        while specs.peek().is_some() {
            let submission = JobSubmission {
                action: Some(self.spec()),
                rest: BatchPosition::More,
                jobs: specs.by_ref().take(BATCH).collect(),
            };
            for placed in engine.submit(submission).await? {
                // The queue is unlimited here, so a rejection means that the action is closed.
                if matches!(placed.destination, JobDestination::Rejected { .. }) {
                    all_submitted = false;
                }
            }
        }
        Ok(all_submitted)
    }

    fn spec(&self) -> ActionSpec {
        ActionSpec {
            timeout: RETENTION,
            keep: RETENTION,
            ..ActionSpec::new(self.action.1.clone())
        }
    }

    /// Closes the action after its last job. No webhook needs a notification.
    pub(super) async fn finish(&mut self) -> anyhow::Result<()> {
        let action = &self.action.1;
        if self.store.action(action).await?.is_some() {
            self.store.close(action).await?;
            self.store.mark_notified(action).await?;
            self.results.read_outcomes(action).await?;
        }
        Ok(())
    }

    /// Returns the unconfigured APIs of all waiting jobs; none while another API has work.
    async fn unserved(&self) -> anyhow::Result<Vec<String>> {
        let mut missing = Vec::new();
        for lane in self.store.lanes().await? {
            match Lane::from_name(&lane) {
                Lane::Api { api, .. } if self.client.api(&api).is_none() => missing.push(api),
                Lane::Api { .. } | Lane::Handler(_) => return Ok(Vec::new()),
            }
        }
        missing.dedup();
        Ok(missing)
    }

    /// Writes the results of jobs that were in flight at an interruption, and counts the others.
    pub(super) async fn write_results(&mut self, engine: &StoreEngine) -> anyhow::Result<()> {
        self.results.read_outcomes(&self.action.1).await?;
        self.unfinished = self.count_unfinished(engine).await?;
        Ok(())
    }

    /// Fails if the reader of the results is gone.
    pub(super) async fn check_readers(&mut self) -> anyhow::Result<()> {
        self.results.writer.check_reader().await
    }

    /// Returns the summary of the run.
    pub(super) fn summary(self, ended: LoopEnd, dir: &std::path::Path) -> RunSummary {
        let LineResults { writer, counted, .. } = self.results;
        RunSummary {
            ended,
            dir: dir.to_owned(),
            out: writer.path().map(std::path::Path::to_owned),
            ended_here: counted.over().saturating_sub(self.before),
            spent: self.clock.now().since(self.begun),
            counted,
            bounds: self.bounds,
            bottlenecks: self.bottlenecks,
            unfinished: self.unfinished,
            waits: self.progress.waits,
        }
    }
}

/// Returns the name of an action of a run.
fn action_name(input: &JobInput, number: u32) -> anyhow::Result<Name> {
    let name = match number {
        1 => format!("run-{}", input.mark),
        number => format!("run-{}-{number}", input.mark),
    };
    Name::new(&name).context("invalid action name")
}

/// Waits for the next error event; waits forever once the engine is closed.
async fn next_error(events: &mut Receiver<BulkEvent>) -> String {
    loop {
        match events.recv().await {
            Ok(BulkEvent::Error { message }) => return message,
            Ok(_) | Err(RecvError::Lagged(_)) => {}
            Err(RecvError::Closed) => std::future::pending().await,
        }
    }
}

/// Often enough to look live, and seldom enough for one disk write each time.
const POLL_PERIOD: Duration = Duration::from_millis(250);

/// Covers the tenants that have a bar: those with work left come first by name.
const SEARCHED_TENANTS: usize = 100;

/// Jobs that a store handles well in one call.
const BATCH: usize = 1_000;
