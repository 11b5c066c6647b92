//! Results of the lines of a file over all runs: counted, and written.
//!
//! A line counts once: a retried line counts as its last round ended. Each round has its own result.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use outflow_bulk::{FailureReasons, JobSpec, JobWork, views};
use outflow_store::{ActionStore, AnyStore, JobOutcome, JobStatus, Name};

use super::FailedLines;
use super::results::ResultWriter;
use super::validate::{FileLine, ValidatedFile};

/// Results of all lines so far.
pub(super) struct LineResults<'a> {
    store: Arc<AnyStore>,
    file: &'a ValidatedFile<'a>,
    pub(super) writer: ResultWriter,
    pub(super) counted: LineCounts,
    /// Lines of jobs with ids of their own.
    lines: HashMap<Name, u64>,
    /// Ids that lines give themselves.
    names: HashMap<u64, Name>,
    /// Ids of finished jobs.
    over: HashSet<Name>,
    /// Failed lines.
    failed: BTreeMap<u64, LineFailure>,
}

/// Last failure of a line.
struct LineFailure {
    tenant: Name,
    round: u32,
    reason: Option<String>,
    /// True if the line is retried, and so does not count as over.
    is_open: bool,
}

/// Counts of finished jobs, over all runs.
#[derive(Clone, Debug, Default)]
pub(super) struct LineCounts {
    pub(super) done: u64,
    pub(super) failed: u64,
    pub(super) expired: u64,
    pub(super) cancelled: u64,
    pub(super) throttles: u64,
    pub(super) attempts: u64,
    /// Jobs that are not done, by reason.
    pub(super) failures: FailureReasons,
    /// Finished jobs by tenant, and those of them that are not done.
    pub(super) tenants: BTreeMap<Name, (u64, u64)>,
    /// Position of the last counted outcome.
    pub(super) position: u64,
}

impl LineCounts {
    fn add(&mut self, outcome: &JobOutcome) {
        let counter = match outcome.ended {
            JobStatus::Done => &mut self.done,
            JobStatus::Failed => &mut self.failed,
            JobStatus::Expired => &mut self.expired,
            JobStatus::Cancelled => &mut self.cancelled,
        };
        *counter += 1;
        self.throttles += u64::from(outcome.throttles);
        self.attempts += u64::from(outcome.attempts);
        self.failures.add_outcome(outcome);
        self.position = outcome.place;
        let (over, not_done) = self.tenants.entry(outcome.tenant.clone()).or_default();
        *over += 1;
        *not_done += u64::from(outcome.ended != JobStatus::Done);
    }

    fn forget_failure(&mut self, failure: &LineFailure) {
        self.failed = self.failed.saturating_sub(1);
        if let Some(reason) = &failure.reason {
            self.failures.remove(reason);
        }
        if let Some((over, not_done)) = self.tenants.get_mut(&failure.tenant) {
            *over = over.saturating_sub(1);
            *not_done = not_done.saturating_sub(1);
        }
    }

    /// Returns the number of finished jobs.
    pub(super) const fn over(&self) -> u64 {
        self.done + self.failed + self.expired + self.cancelled
    }
}

impl<'a> LineResults<'a> {
    /// Starts with no result of this file.
    pub(super) fn new(store: &Arc<AnyStore>, file: &'a ValidatedFile<'a>, writer: ResultWriter) -> Self {
        let own = file.own_ids.iter();
        // An invalid line may have been sent before, when its API was known: of several lines with one id,
        // the first.
        let first = own.clone().rev().map(|(line, name)| (name.clone(), *line));
        let mut lines: HashMap<_, _> = first.collect();
        let names: HashMap<_, _> = own.cloned().collect();
        let sent = file.lines.iter();
        let sent = sent.filter(|line| names.contains_key(&line.number));
        lines.extend(sent.filter_map(|line| Some((line.id.clone()?, line.number))));
        Self {
            store: Arc::clone(store),
            file,
            writer,
            counted: LineCounts::default(),
            names,
            lines,
            over: HashSet::new(),
            failed: BTreeMap::new(),
        }
    }

    /// Marks failed lines as retried: their last end no longer counts.
    pub(super) fn reopen(&mut self, lines: &[u64]) {
        for line in lines {
            if let Some(failure) = self.failed.get_mut(line)
                && !std::mem::replace(&mut failure.is_open, true)
            {
                self.counted.forget_failure(failure);
            }
        }
    }

    /// Returns the round in which a line is to be submitted, unless it is over: 1, or more for a retry.
    pub(super) fn next_round(&self, line: &FileLine, failed_lines: FailedLines) -> Option<u32> {
        let is_over = line.id.as_ref().is_some_and(|id| self.over.contains(id));
        match (is_over, failed_lines, self.failed.get(&line.number)) {
            (false, _, _) => Some(FIRST_ROUND),
            (true, FailedLines::Retried, Some(last)) => Some(last.round.saturating_add(1)),
            (true, _, _) => None,
        }
    }

    /// Returns the job of a line for this round.
    pub(super) fn job(&self, line: &FileLine, round: u32) -> Option<JobSpec> {
        let mut job = self.file.job(line)?;
        if round > FIRST_ROUND {
            self.rename_retry(line, round, &mut job);
        }
        Some(job)
    }

    /// Gives a retry another id. Its idempotency key stays the one of the first round: of the line, of a
    /// header, or the first id.
    fn rename_retry(&self, line: &FileLine, round: u32, job: &mut JobSpec) {
        if let JobWork::Call(call) = &mut job.work
            && !call.headers.contains_key(IDEMPOTENCY_KEY)
        {
            let first = job.id.as_ref().map(Name::to_string);
            call.idempotency_key = call.idempotency_key.take().or(first);
        }
        job.id = self.file.input.retry_id(line.number, round);
    }

    /// Reads new outcomes of an action, counts them and writes their results.
    pub(super) async fn read_outcomes(&mut self, action: &Name) -> anyhow::Result<()> {
        loop {
            let after = self.counted.position;
            let page = self.store.outcomes(action, after, PAGE).await?;
            let Some(last) = page.last().map(|outcome| outcome.place) else {
                return Ok(());
            };
            let mut lines = String::new();
            for outcome in &page {
                if outcome.place > self.writer.written() {
                    lines.push_str(&self.describe(outcome));
                }
                self.record(outcome);
            }
            if last > self.writer.written() {
                self.writer.write(&lines, last)?;
            }
        }
    }

    fn record(&mut self, outcome: &JobOutcome) {
        self.over.insert(outcome.id.clone());
        if let Some((line, round)) = self.find_line(&outcome.id) {
            self.reopen(&[line]);
            self.failed.remove(&line);
            if outcome.ended == JobStatus::Failed {
                let failure = LineFailure {
                    tenant: outcome.tenant.clone(),
                    round,
                    reason: FailureReasons::reason(outcome),
                    is_open: false,
                };
                self.failed.insert(line, failure);
            }
        }
        self.counted.add(outcome);
    }

    /// Returns the line of a job, and its round.
    fn find_line(&self, name: &Name) -> Option<(u64, u32)> {
        let own = self.lines.get(name).map(|line| (*line, FIRST_ROUND));
        own.or_else(|| self.file.input.find_line(name))
    }

    fn describe(&self, outcome: &JobOutcome) -> String {
        let mut result = views::outcome(outcome);
        if let (Some((line, round)), Some(fields)) = (self.find_line(&outcome.id), result.as_object_mut()) {
            fields.insert("line".to_owned(), line.into());
            if round > 1 {
                fields.insert("round".to_owned(), round.into());
                let own = self.names.get(&line).cloned();
                let first = own.or_else(|| self.file.input.line_id(line));
                fields.extend(first.map(|name| ("id".to_owned(), name.as_str().into())));
            }
        }
        format!("{result}\n")
    }
}

/// Round of a line that did not fail before.
pub(super) const FIRST_ROUND: u32 = 1;

/// Header of an idempotency key.
const IDEMPOTENCY_KEY: &str = "idempotency-key";

/// Small, since an outcome may hold a response of megabytes.
const PAGE: usize = 100;
