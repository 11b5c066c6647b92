//! One sitting of a run: from its start to the last job, or to Ctrl-C.
//!
//! The jobs of a run belong to an action, which stays open until all of them are over, so that a run that
//! goes on can always add to it. What a later sitting finds when the action is over, lines that were wrong
//! before or failures that are tried anew, it puts into another: chapter after chapter, until every line
//! has its end. What was handed in is known by its name and never by how much there is.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use outflow::{Outflow, SystemClock};
use outflow_bulk::{
    BulkEvent, JobDestination, JobSubmission, Lane, RunningEngine, StoreEngine, TenantBounds,
    Workload,
};
use outflow_core::{Clock, Nanos};
use outflow_store::{
    ActionSpec, ActionStore, AnyStore, BatchPosition, DeadLetterFilter, DeadLetterStore, JobQueue,
    Name,
};
use tokio::sync::broadcast::{Receiver, error::RecvError};
use tokio::time::timeout;

use super::line_results::{FIRST_ROUND, LineResults};
use super::progress_bars::ProgressBars;
use super::results::ResultWriter;
use super::summary::RunSummary;
use super::validate::ValidatedFile;
use super::{FOR_LONG, FailedLines};
use crate::commands::bulk::input::JobInput;
use crate::terminal::{Terminal, count, say};

/// How a sitting ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum LoopEnd {
    /// With the last job.
    Finished,
    /// With jobs that wait for APIs which are not configured any more.
    Unserved(Vec<String>),
    /// Somebody pressed Ctrl-C.
    Interrupted,
}

/// One sitting.
pub(super) struct RunLoop<'a> {
    store: Arc<AnyStore>,
    client: &'a Outflow,
    file: &'a ValidatedFile<'a>,
    failed: FailedLines,
    record: LineResults<'a>,
    /// The number of the action that jobs go to, and its name.
    chapter: (u32, Name),
    clock: SystemClock,
    begun: Nanos,
    /// What was over when it began.
    before: u64,
    forecast: Option<TenantBounds>,
}

/// What is handed over to a sitting.
pub(super) struct RunDeps<'a> {
    pub(super) store: Arc<AnyStore>,
    pub(super) client: &'a Outflow,
    pub(super) file: &'a ValidatedFile<'a>,
    pub(super) failed: FailedLines,
}

/// What is left of a file.
#[derive(Default)]
struct RemainingLines {
    /// What it wants.
    demand: Workload,
    /// Which of its lines failed and are tried anew.
    anew: Vec<u64>,
}

/// Whether everything could be handed in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum HandedIn {
    All,
    /// The action takes no more; the rest goes to the next one.
    Some,
}

impl<'a> RunLoop<'a> {
    /// Sits down before what earlier sittings left.
    pub(super) async fn new(desk: RunDeps<'a>, results: ResultWriter) -> anyhow::Result<Self> {
        let clock = SystemClock::new();
        let mut sitting = Self {
            record: LineResults::new(&desk.store, desk.file, results),
            store: desk.store,
            client: desk.client,
            file: desk.file,
            failed: desk.failed,
            chapter: (1, chapter(desk.file.input, 1)?),
            begun: clock.now(),
            clock,
            before: 0,
            forecast: None,
        };
        sitting.leaf().await?;
        sitting.record.results.is_ours()?;
        sitting.before = sitting.record.counted.over();
        Ok(sitting)
    }

    /// Reads on to the first chapter that is not over, or that nobody began.
    async fn leaf(&mut self) -> anyhow::Result<()> {
        while let Some(report) = self.store.action(&self.chapter.1).await? {
            self.record.read_on(&self.chapter.1).await?;
            if !report.stage.is_over() {
                break;
            }
            let next = self.chapter.0 + 1;
            self.chapter = (next, chapter(self.file.input, next)?);
        }
        Ok(())
    }

    /// Whether there is anything to do.
    pub(super) async fn has_work(&self) -> anyhow::Result<bool> {
        Ok(self.remaining().demand.jobs() > 0 || self.open().await? > 0)
    }

    /// How many jobs wait or are under way.
    async fn open(&self) -> anyhow::Result<u64> {
        let report = self.store.action(&self.chapter.1).await?;
        Ok(report.map_or(0, |report| report.tally.open()))
    }

    /// The lines that are not over.
    fn remaining(&self) -> RemainingLines {
        let mut left = RemainingLines::default();
        for line in &self.file.lines {
            if let Some(round) = self.record.next_round(line, self.failed) {
                line.add_to(&mut left.demand);
                left.anew
                    .extend((round > FIRST_ROUND).then_some(line.number));
            }
        }
        left
    }

    /// Has everything done that is not.
    pub(super) async fn work(
        &mut self,
        bulk: &RunningEngine,
        all: &Workload,
        terminal: Terminal,
    ) -> anyhow::Result<LoopEnd> {
        // What was waited for before is no part of how fast it goes.
        self.begun = self.clock.now();
        let wall = self.clock.wall();
        let settings = bulk.engine().settings();
        let left = self.remaining();
        let forecast = TenantBounds::new(&left.demand, self.client, &settings, wall);
        self.begin(all, &left.anew).await?;
        let mut board = ProgressBars::new(terminal, all, &forecast);
        self.forecast = Some(forecast);
        let mut news = bulk.engine().events();
        let mut handed_in = self.hand_in(bulk.engine()).await?;
        loop {
            let over = self.open().await? == 0;
            if over {
                self.finish().await?;
            }
            self.record.read_on(&self.chapter.1).await?;
            let spent = self.clock.now().since(self.begun);
            if board.is_due(spent) {
                let progress = bulk.engine().progress(&self.chapter.1).await?;
                let eta = progress.and_then(|progress| progress.eta);
                board.show(&self.record.counted, self.before, spent, eta);
            }
            let missing = self.unserved().await?;
            if over && handed_in == HandedIn::Some {
                self.leaf().await?;
                handed_in = self.hand_in(bulk.engine()).await?;
            } else if over || !missing.is_empty() {
                board.wipe();
                return Ok(if over {
                    LoopEnd::Finished
                } else {
                    LoopEnd::Unserved(missing)
                });
            } else if let Ok(words) = timeout(GLANCE, trouble(&mut news)).await {
                board.say(&words);
            }
        }
    }

    /// Says where it begins, and makes room for what is tried anew.
    async fn begin(&mut self, all: &Workload, anew: &[u64]) -> anyhow::Result<()> {
        if !anew.is_empty() {
            say!(
                "{}: tried anew",
                count(anew.len(), "job had failed", "jobs had failed")
            );
            self.record.reopen(anew);
            self.before = self.record.counted.over();
            // Why they failed is in the results.
            self.store.purge(&DeadLetterFilter::All).await?;
        }
        if self.before > 0 {
            let (before, all) = (self.before, all.jobs().max(self.before));
            say!("{before} of {all} jobs are over already; going on");
        }
        Ok(())
    }

    /// Hands all jobs to the store that are not over. Those that it has it knows by their names.
    async fn hand_in(&self, engine: &StoreEngine) -> anyhow::Result<HandedIn> {
        let orders = self.file.lines.iter().filter_map(|line| {
            let round = self.record.next_round(line, self.failed)?;
            self.record.job(line, round)
        });
        let mut orders = orders.peekable();
        let mut handed_in = HandedIn::All;
        while orders.peek().is_some() {
            let submission = JobSubmission {
                action: Some(self.spec()),
                rest: BatchPosition::More,
                jobs: orders.by_ref().take(BATCH).collect(),
            };
            for placed in engine.submit(submission).await? {
                // There is room for whatever the file holds: it is the action that is closed.
                if matches!(placed.destination, JobDestination::Rejected { .. }) {
                    handed_in = HandedIn::Some;
                }
            }
        }
        Ok(handed_in)
    }

    fn spec(&self) -> ActionSpec {
        ActionSpec {
            timeout: FOR_LONG,
            keep: FOR_LONG,
            ..ActionSpec::new(self.chapter.1.clone())
        }
    }

    /// Closes the action, whose jobs are all over: there is nobody to tell but whoever called this.
    pub(super) async fn finish(&mut self) -> anyhow::Result<()> {
        let action = &self.chapter.1;
        if self.store.action(action).await?.is_some() {
            self.store.close(action).await?;
            self.store.mark_notified(action).await?;
            self.record.read_on(action).await?;
        }
        Ok(())
    }

    /// The APIs that all waiting jobs want and the configuration does not know; none while anybody else
    /// still has work.
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

    /// Writes the results of what was under way when it was interrupted.
    pub(super) async fn write_results(&mut self) -> anyhow::Result<()> {
        self.record.read_on(&self.chapter.1).await
    }

    /// Whether the results that were written have somebody who reads them.
    pub(super) async fn are_read(&mut self) -> anyhow::Result<()> {
        self.record.results.are_read().await
    }

    /// How it went.
    pub(super) fn summary(self, ended: LoopEnd, dir: &std::path::Path) -> RunSummary {
        let LineResults {
            results, counted, ..
        } = self.record;
        RunSummary {
            ended,
            dir: dir.to_owned(),
            out: results.path().map(std::path::Path::to_owned),
            here: counted.over().saturating_sub(self.before),
            spent: self.clock.now().since(self.begun),
            counted,
            forecast: self.forecast,
        }
    }
}

/// The name of an action of a run.
fn chapter(input: &JobInput, number: u32) -> anyhow::Result<Name> {
    let name = match number {
        1 => format!("run-{}", input.mark),
        number => format!("run-{}-{number}", input.mark),
    };
    Name::new(&name).context("a name of ours")
}

/// Waits for bad news, or for the end, of which there is nothing to say.
async fn trouble(news: &mut Receiver<BulkEvent>) -> String {
    loop {
        match news.recv().await {
            Ok(BulkEvent::Error { message }) => return message,
            Ok(_) | Err(RecvError::Lagged(_)) => {}
            Err(RecvError::Closed) => std::future::pending().await,
        }
    }
}

/// Often enough to look alive, and seldom enough for one write of the disk each time.
const GLANCE: Duration = Duration::from_millis(250);

/// As many as one step of a store should take.
const BATCH: usize = 1_000;
