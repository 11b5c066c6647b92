//! What came of the lines of a file so far, in all sittings: counted, and written as results.
//!
//! A line counts once. One that failed and was tried anew counts as its last round ended; its results
//! are all there, one for each round.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use outflow_bulk::{JobSpec, JobWork};
use outflow_store::{ActionStore, JobOutcome, JobStatus as Over, Name};

use super::FailedLines;
use super::results::ResultWriter;
use crate::commands::bulk::input::JobInput;
use crate::open::{AnyStore, views};

/// What is known of the lines.
pub(super) struct LineResults<'a> {
    store: Arc<AnyStore>,
    input: &'a JobInput,
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
    /// Of a file whose lines are sent under these names, as far as they are right.
    pub(super) fn new(
        store: &Arc<AnyStore>,
        input: &'a JobInput,
        results: ResultWriter,
        sent: impl Iterator<Item = (u64, Name)>,
    ) -> Self {
        let own = input.jobs().filter_map(|(line, job)| {
            let name: Name = job.ok()?.id?.parse().ok()?;
            Some((line, name))
        });
        let own: Vec<_> = own.collect();
        // One that is wrong now may have been sent before, when its API was known: of several with one
        // name the first.
        let first = own.iter().rev().map(|(line, name)| (name.clone(), *line));
        let mut lines: HashMap<_, _> = first.collect();
        let names: HashMap<_, _> = own.into_iter().collect();
        let sent = sent.filter(|(line, _)| names.contains_key(line));
        lines.extend(sent.map(|(line, name)| (name, line)));
        Self {
            store: Arc::clone(store),
            input,
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

    /// The order of a line as it is to be handed in, unless it is over.
    pub(super) fn wanted(&self, line: u64, order: JobSpec, failed: FailedLines) -> Option<JobSpec> {
        let is_over = order.id.as_ref().is_some_and(|id| self.over.contains(id));
        match (is_over, failed, self.failed.get(&line)) {
            (false, _, _) => Some(order),
            (true, FailedLines::TriedAnew, Some(last)) => {
                Some(self.retry_spec(line, last.round, order))
            }
            (true, _, _) => None,
        }
    }

    /// The same call under another name; the API knows it by the same key, whether that was said, stands
    /// among the headers, or was the first name.
    fn retry_spec(&self, line: u64, round: u32, mut order: JobSpec) -> JobSpec {
        if let JobWork::Call(call) = &mut order.work
            && !call.headers.contains_key(IDEMPOTENCY_KEY)
        {
            let first = order.id.as_ref().map(Name::to_string);
            call.idempotency_key = call.idempotency_key.take().or(first);
        }
        order.id = self.input.retry_name(line, round.saturating_add(1));
        order
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
        let own = self.lines.get(name).map(|line| (*line, 1));
        own.or_else(|| self.input.line(name))
    }

    fn describe(&self, outcome: &JobOutcome) -> String {
        let mut told = views::outcome(outcome);
        if let (Some((line, round)), Some(told)) = (self.line(&outcome.id), told.as_object_mut()) {
            told.insert("line".to_owned(), line.into());
            if round > 1 {
                told.insert("round".to_owned(), round.into());
                let own = self.names.get(&line).cloned();
                let first = own.or_else(|| self.input.name(line));
                told.extend(first.map(|name| ("id".to_owned(), name.as_str().into())));
            }
        }
        format!("{told}\n")
    }
}

/// The header that holds a key.
const IDEMPOTENCY_KEY: &str = "idempotency-key";

/// As many outcomes as should be in memory at once: each may hold an answer of megabytes.
const PAGE: usize = 100;
