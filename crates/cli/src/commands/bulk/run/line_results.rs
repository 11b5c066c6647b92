//! What came of the lines of a file so far, in all sittings: counted, and written as results.
//!
//! A line counts once. One that failed and was tried anew counts as its last round ended; its results
//! are all there, one for each round.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use outflow_bulk::{JobSpec, JobWork, views};
use outflow_store::{ActionStore, AnyStore, JobOutcome, JobStatus as Over, Name};

use super::FailedLines;
use super::results::ResultWriter;
use super::validate::{FileLine, ValidatedFile};

/// What is known of the lines.
pub(super) struct LineResults<'a> {
    store: Arc<AnyStore>,
    file: &'a ValidatedFile<'a>,
    pub(super) results: ResultWriter,
    pub(super) counted: LineCounts,
    /// The lines of jobs that have names of their own, and those names.
    lines: HashMap<Name, u64>,
    names: HashMap<u64, Name>,
    /// What is over, by the name that the store knows.
    over: HashSet<Name>,
    /// Lines that failed.
    failed: BTreeMap<u64, LineFailure>,
}

/// How a line failed last.
struct LineFailure {
    tenant: Name,
    round: u32,
    /// Whether it is tried anew, and so not counted as over.
    is_open: bool,
}

/// What became of the jobs so far, in all sittings.
#[derive(Clone, Debug, Default)]
pub(super) struct LineCounts {
    pub(super) done: u64,
    pub(super) failed: u64,
    pub(super) expired: u64,
    pub(super) cancelled: u64,
    pub(super) throttles: u64,
    pub(super) attempts: u64,
    /// How many are over, by tenant, and of those how many not done.
    pub(super) tenants: BTreeMap<Name, (u64, u64)>,
    /// The last that was looked at.
    pub(super) place: u64,
}

impl LineCounts {
    fn add(&mut self, outcome: &JobOutcome) {
        let counter = match outcome.ended {
            Over::Done => &mut self.done,
            Over::Failed => &mut self.failed,
            Over::Expired => &mut self.expired,
            Over::Cancelled => &mut self.cancelled,
        };
        *counter += 1;
        self.throttles += u64::from(outcome.throttles);
        self.attempts += u64::from(outcome.attempts);
        self.place = outcome.place;
        let (over, not_done) = self.tenants.entry(outcome.tenant.clone()).or_default();
        *over += 1;
        *not_done += u64::from(outcome.ended != Over::Done);
    }

    fn forget_failure(&mut self, tenant: &Name) {
        self.failed = self.failed.saturating_sub(1);
        if let Some((over, not_done)) = self.tenants.get_mut(tenant) {
            *over = over.saturating_sub(1);
            *not_done = not_done.saturating_sub(1);
        }
    }

    /// All that are over.
    pub(super) const fn over(&self) -> u64 {
        self.done + self.failed + self.expired + self.cancelled
    }
}

impl<'a> LineResults<'a> {
    /// Starts with no result of this file.
    pub(super) fn new(
        store: &Arc<AnyStore>,
        file: &'a ValidatedFile<'a>,
        results: ResultWriter,
    ) -> Self {
        let own = file.own_ids.iter();
        // A line that is invalid now may have been sent before, when its API was known: of several with one
        // id the first.
        let first = own.clone().rev().map(|(line, name)| (name.clone(), *line));
        let mut lines: HashMap<_, _> = first.collect();
        let names: HashMap<_, _> = own.cloned().collect();
        let sent = file.lines.iter();
        let sent = sent.filter(|line| names.contains_key(&line.number));
        lines.extend(sent.filter_map(|line| Some((line.id.clone()?, line.number))));
        Self {
            store: Arc::clone(store),
            file,
            results,
            counted: LineCounts::default(),
            names,
            lines,
            over: HashSet::new(),
            failed: BTreeMap::new(),
        }
    }

    /// These lines failed and are tried anew: that end does not count any more.
    pub(super) fn reopen(&mut self, lines: &[u64]) {
        for line in lines {
            if let Some(failure) = self.failed.get_mut(line)
                && !std::mem::replace(&mut failure.is_open, true)
            {
                self.counted.forget_failure(&failure.tenant);
            }
        }
    }

    /// Returns the round in which a line is to be submitted, unless it is over: 1, or more for a retry.
    pub(super) fn next_round(&self, line: &FileLine, failed: FailedLines) -> Option<u32> {
        let is_over = line.id.as_ref().is_some_and(|id| self.over.contains(id));
        match (is_over, failed, self.failed.get(&line.number)) {
            (false, _, _) => Some(FIRST_ROUND),
            (true, FailedLines::TriedAnew, Some(last)) => Some(last.round.saturating_add(1)),
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

    /// Gives a retry another id. The API knows the call by the first key: the one of the line, of a header, or
    /// the first id.
    fn rename_retry(&self, line: &FileLine, round: u32, job: &mut JobSpec) {
        if let JobWork::Call(call) = &mut job.work
            && !call.headers.contains_key(IDEMPOTENCY_KEY)
        {
            let first = job.id.as_ref().map(Name::to_string);
            call.idempotency_key = call.idempotency_key.take().or(first);
        }
        job.id = self.file.input.retry_name(line.number, round);
    }

    /// Reads what is new of an action, counts it and writes its results.
    pub(super) async fn read_on(&mut self, action: &Name) -> anyhow::Result<()> {
        loop {
            let after = self.counted.place;
            let page = self.store.outcomes(action, after, PAGE).await?;
            let Some(last) = page.last().map(|outcome| outcome.place) else {
                return Ok(());
            };
            let mut lines = String::new();
            for outcome in &page {
                if outcome.place > self.results.written() {
                    lines.push_str(&self.describe(outcome));
                }
                self.note(outcome);
            }
            if last > self.results.written() {
                self.results.write(&lines, last)?;
            }
        }
    }

    fn note(&mut self, outcome: &JobOutcome) {
        self.over.insert(outcome.id.clone());
        if let Some((line, round)) = self.line(&outcome.id) {
            self.reopen(&[line]);
            self.failed.remove(&line);
            if outcome.ended == Over::Failed {
                let failure = LineFailure {
                    tenant: outcome.tenant.clone(),
                    round,
                    is_open: false,
                };
                self.failed.insert(line, failure);
            }
        }
        self.counted.add(outcome);
    }

    /// The line of a job, and in which round it was.
    fn line(&self, name: &Name) -> Option<(u64, u32)> {
        let own = self.lines.get(name).map(|line| (*line, FIRST_ROUND));
        own.or_else(|| self.file.input.line(name))
    }

    fn describe(&self, outcome: &JobOutcome) -> String {
        let mut told = views::outcome(outcome);
        if let (Some((line, round)), Some(told)) = (self.line(&outcome.id), told.as_object_mut()) {
            told.insert("line".to_owned(), line.into());
            if round > 1 {
                told.insert("round".to_owned(), round.into());
                let own = self.names.get(&line).cloned();
                let first = own.or_else(|| self.file.input.name(line));
                told.extend(first.map(|name| ("id".to_owned(), name.as_str().into())));
            }
        }
        format!("{told}\n")
    }
}

/// The round of a line that did not fail before.
pub(super) const FIRST_ROUND: u32 = 1;

/// The header that holds a key.
const IDEMPOTENCY_KEY: &str = "idempotency-key";

/// As many outcomes as should be in memory at once: each may hold an answer of megabytes.
const PAGE: usize = 100;
