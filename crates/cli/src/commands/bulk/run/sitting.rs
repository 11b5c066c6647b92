//! One sitting of a run: from its start to the last job, or to Ctrl-C.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, bail};
use outflow::{Outflow, SystemClock};
use outflow_bulk::{Destination, News, Submission};
use outflow_core::{Clock, Nanos};
use outflow_store::{ActionReport, ActionSpec, Ended as Over, JobStore, Name, Outcome, Rest};
use tokio::sync::broadcast::{Receiver, error::RecvError};
use tokio::time::timeout;

use super::FOR_LONG;
use super::board::Board;
use super::checked::Orders;
use super::results::Results;
use super::summary::Summary;
use crate::bulk::{Bulk, Demand, Forecast, told};
use crate::commands::bulk::input::Input;
use crate::terminal::{Terminal, say};

/// How a sitting ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Ended {
    /// With the last job.
    Finished,
    /// Somebody pressed Ctrl-C.
    Interrupted,
}

/// One sitting.
pub(super) struct Sitting<'a> {
    bulk: &'a Bulk,
    client: &'a Outflow,
    input: &'a Input,
    results: Results,
    action: Name,
    clock: SystemClock,
    begun: Nanos,
    counted: Counted,
    /// What was over when it began.
    before: u64,
    forecast: Option<Forecast>,
    /// The place of the last dead letter that was looked at, and why jobs failed.
    letters: (u64, HashMap<Name, String>),
}

/// What became of the jobs so far, in all sittings.
#[derive(Clone, Debug, Default)]
pub(super) struct Counted {
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

impl Counted {
    fn add(&mut self, outcome: &Outcome) {
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

    /// All that are over.
    pub(super) const fn over(&self) -> u64 {
        self.done + self.failed + self.expired + self.cancelled
    }
}

impl<'a> Sitting<'a> {
    /// Sits down before what earlier sittings left.
    pub(super) async fn new(
        bulk: &'a Bulk,
        client: &'a Outflow,
        input: &'a Input,
        results: Results,
    ) -> anyhow::Result<Self> {
        let action = Name::new(&format!("run-{}", input.mark)).context("a name of ours")?;
        let clock = SystemClock::new();
        let mut sitting = Self {
            bulk,
            client,
            input,
            results,
            action,
            begun: clock.now(),
            clock,
            counted: Counted::default(),
            before: 0,
            forecast: None,
            letters: (0, HashMap::new()),
        };
        sitting.write_results().await?;
        sitting.before = sitting.counted.over();
        Ok(sitting)
    }

    /// Has everything done that is not.
    pub(super) async fn work(&mut self, all: &Demand, terminal: Terminal) -> anyhow::Result<Ended> {
        let rest = self.rest().await?;
        let demand = rest.as_ref().unwrap_or(all);
        let settings = self.bulk.engine().settings();
        let wall = self.clock.wall();
        let forecast = Forecast::of(demand, self.client, &settings, wall);
        if self.before > 0 {
            say!(
                "{} of {} jobs are over already; going on",
                self.before,
                all.jobs()
            );
        }
        let mut board = Board::new(terminal, all, &forecast);
        self.forecast = Some(forecast);
        let mut news = self.bulk.engine().news();
        self.submit(all.jobs()).await?;
        loop {
            let report = self.bulk.store().action(&self.action).await?;
            let over = report.is_none_or(|report| report.stage.is_over());
            self.write_results().await?;
            let spent = self.clock.now().since(self.begun);
            board.show(&self.counted, self.before, spent);
            if over {
                board.wipe();
                return Ok(Ended::Finished);
            }
            if let Ok(words) = timeout(GLANCE, trouble(&mut news)).await {
                say!("{words}");
            }
        }
    }

    /// What is left of the file after earlier sittings; nothing if there was none.
    async fn rest(&self) -> anyhow::Result<Option<Demand>> {
        if self.before == 0 {
            return Ok(None);
        }
        let over = HashSet::new();
        let note = |mut over: HashSet<Name>, outcome: Outcome| {
            over.insert(outcome.id);
            over
        };
        let over = self.bulk.engine().fold(&self.action, over, note).await?;
        let mut demand = Demand::default();
        for (_, read) in Orders::of(self.input, self.client) {
            if let Ok((order, standing)) = read
                && order.id.as_ref().is_none_or(|id| !over.contains(id))
            {
                demand.add(&order.tenant, &standing, order.not_before);
            }
        }
        Ok(Some(demand))
    }

    /// Hands all jobs to the store, unless that was done to its end before. Those that it has it knows by
    /// their names.
    async fn submit(&self, all: u64) -> anyhow::Result<()> {
        let known = self.bulk.store().action(&self.action).await?;
        // The last batch closes the action in the same step, so whoever has all of them is closed.
        let has_all =
            |report: ActionReport| report.stage.is_over() || report.tally.submitted() >= all;
        if known.is_some_and(has_all) {
            return Ok(());
        }
        let orders = Orders::of(self.input, self.client);
        let mut orders = orders.filter_map(|(_, read)| read.ok()).peekable();
        let mut sent = 0;
        while orders.peek().is_some() {
            let batch: Vec<_> = orders
                .by_ref()
                .take(BATCH)
                .map(|(order, _)| order)
                .collect();
            sent += u64::try_from(batch.len()).unwrap_or(u64::MAX);
            let rest = if sent >= all { Rest::Last } else { Rest::More };
            let submission = Submission {
                action: Some(self.spec()),
                rest,
                orders: batch,
            };
            for placed in self.bulk.engine().submit(submission).await? {
                if let Destination::Rejected { reason } = placed.destination {
                    bail!("a job was not taken: {reason}");
                }
            }
        }
        Ok(())
    }

    fn spec(&self) -> ActionSpec {
        ActionSpec {
            timeout: FOR_LONG,
            keep: FOR_LONG,
            ..ActionSpec::new(self.action.clone())
        }
    }

    /// Writes all results that are new, and counts them.
    pub(super) async fn write_results(&mut self) -> anyhow::Result<()> {
        loop {
            let store = self.bulk.store();
            let page = store
                .outcomes(&self.action, self.counted.place, PAGE)
                .await?;
            let Some(last) = page.last().map(|outcome| outcome.place) else {
                return Ok(());
            };
            if page.iter().any(|outcome| outcome.ended == Over::Failed) {
                self.read_letters().await?;
            }
            let mut lines = String::new();
            for outcome in &page {
                self.counted.add(outcome);
                let why = self.letters.1.remove(&outcome.id);
                if outcome.place > self.results.written() {
                    lines.push_str(&self.line(outcome, why.as_deref()));
                }
            }
            if last > self.results.written() {
                self.results.write(&lines, last)?;
            }
        }
    }

    fn line(&self, outcome: &Outcome, why: Option<&str>) -> String {
        let mut told = told::outcome(outcome, why);
        if let (Some(line), Some(told)) = (self.input.line(&outcome.id), told.as_object_mut()) {
            told.insert("line".to_owned(), line.into());
        }
        format!("{told}\n")
    }

    /// Why jobs failed is written on their letters.
    async fn read_letters(&mut self) -> anyhow::Result<()> {
        loop {
            let page = self.bulk.store().dead(self.letters.0, PAGE).await?;
            let Some(last) = page.last() else {
                return Ok(());
            };
            self.letters.0 = last.place;
            for letter in page {
                let words = letter.history.into_iter().last().map(|mishap| mishap.words);
                self.letters.1.extend(words.map(|words| (letter.id, words)));
            }
        }
    }

    /// How it went.
    pub(super) fn summary(self, ended: Ended, dir: &Path) -> Summary {
        Summary {
            ended,
            dir: dir.to_owned(),
            out: self.results.path().map(Path::to_owned),
            here: self.counted.over() - self.before,
            spent: self.clock.now().since(self.begun),
            counted: self.counted,
            forecast: self.forecast,
        }
    }
}

/// Waits for bad news, or for the end, of which there is nothing to say.
async fn trouble(news: &mut Receiver<News>) -> String {
    loop {
        match news.recv().await {
            Ok(News::Trouble { words }) => return words,
            Ok(_) | Err(RecvError::Lagged(_)) => {}
            Err(RecvError::Closed) => std::future::pending().await,
        }
    }
}

/// Often enough to look alive, and seldom enough for one write of the disk each time.
const GLANCE: Duration = Duration::from_millis(250);

/// As many as one step of a store should take.
const BATCH: usize = 1_000;

/// As many outcomes as one answer of a store should hold.
const PAGE: usize = 500;
