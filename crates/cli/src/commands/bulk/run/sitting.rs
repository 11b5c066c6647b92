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
use outflow_bulk::{Destination, Lane, News, Settings, Submission};
use outflow_core::{Clock, Nanos};
use outflow_store::{ActionSpec, DeadPick, JobStore, Name, Rest};
use tokio::sync::broadcast::{Receiver, error::RecvError};
use tokio::time::timeout;

use super::board::Board;
use super::checked::Orders;
use super::record::Record;
use super::results::Results;
use super::summary::Summary;
use super::{FOR_LONG, Failed};
use crate::bulk::{Bulk, Demand, Engine, Forecast, Stored};
use crate::commands::bulk::input::Input;
use crate::terminal::{Terminal, count, say};

/// How a sitting ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Ended {
    /// With the last job.
    Finished,
    /// With jobs that wait for APIs which are not configured any more.
    Unserved(Vec<String>),
    /// Somebody pressed Ctrl-C.
    Interrupted,
}

/// One sitting.
pub(super) struct Sitting<'a> {
    store: Arc<Stored>,
    client: &'a Outflow,
    settings: &'a Settings,
    input: &'a Input,
    failed: Failed,
    record: Record<'a>,
    /// The number of the action that jobs go to, and its name.
    chapter: (u32, Name),
    clock: SystemClock,
    begun: Nanos,
    /// What was over when it began.
    before: u64,
    forecast: Option<Forecast>,
}

/// What is handed over to a sitting.
pub(super) struct Desk<'a> {
    pub(super) store: Arc<Stored>,
    pub(super) client: &'a Outflow,
    pub(super) settings: &'a Settings,
    pub(super) input: &'a Input,
    pub(super) failed: Failed,
}

/// What is left of a file.
#[derive(Default)]
struct Left {
    /// What it wants.
    demand: Demand,
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

impl<'a> Sitting<'a> {
    /// Sits down before what earlier sittings left.
    pub(super) async fn new(desk: Desk<'a>, results: Results) -> anyhow::Result<Self> {
        let clock = SystemClock::new();
        let orders = Orders::of(desk.input, desk.client, desk.settings);
        let sent = orders.filter_map(|(line, read)| Some((line, read.ok()?.0.id?)));
        let mut sitting = Self {
            record: Record::new(&desk.store, desk.input, results, sent),
            store: desk.store,
            client: desk.client,
            settings: desk.settings,
            input: desk.input,
            failed: desk.failed,
            chapter: (1, chapter(desk.input, 1)?),
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
            self.chapter = (next, chapter(self.input, next)?);
        }
        Ok(())
    }

    /// Whether there is anything to do.
    pub(super) async fn has_work(&self) -> anyhow::Result<bool> {
        Ok(self.left().demand.jobs() > 0 || self.open().await? > 0)
    }

    /// How many jobs wait or are under way.
    async fn open(&self) -> anyhow::Result<u64> {
        let report = self.store.action(&self.chapter.1).await?;
        Ok(report.map_or(0, |report| report.tally.open()))
    }

    fn orders(&self) -> Orders<'_> {
        Orders::of(self.input, self.client, self.settings)
    }

    /// The lines that are not over.
    fn left(&self) -> Left {
        let mut left = Left::default();
        for (line, read) in self.orders() {
            if let Ok((order, standing)) = read
                && let first = order.id.clone()
                && let Some(order) = self.record.wanted(line, order, self.failed)
            {
                left.demand.add(&order.tenant, &standing, order.not_before);
                left.anew.extend((order.id != first).then_some(line));
            }
        }
        left
    }

    /// Has everything done that is not.
    pub(super) async fn work(
        &mut self,
        bulk: &Bulk,
        all: &Demand,
        terminal: Terminal,
    ) -> anyhow::Result<Ended> {
        // What was waited for before is no part of how fast it goes.
        self.begun = self.clock.now();
        let wall = self.clock.wall();
        let settings = bulk.engine().settings();
        let left = self.left();
        let forecast = Forecast::of(&left.demand, self.client, &settings, wall);
        self.begin(all, &left.anew).await?;
        let mut board = Board::new(terminal, all, &forecast);
        self.forecast = Some(forecast);
        let mut news = bulk.engine().news();
        let mut handed_in = self.hand_in(bulk.engine()).await?;
        loop {
            let over = self.open().await? == 0;
            if over {
                self.finish().await?;
            }
            self.record.read_on(&self.chapter.1).await?;
            let spent = self.clock.now().since(self.begun);
            board.show(&self.record.counted, self.before, spent);
            let missing = self.unserved().await?;
            if over && handed_in == HandedIn::Some {
                self.leaf().await?;
                handed_in = self.hand_in(bulk.engine()).await?;
            } else if over || !missing.is_empty() {
                board.wipe();
                return Ok(if over {
                    Ended::Finished
                } else {
                    Ended::Unserved(missing)
                });
            } else if let Ok(words) = timeout(GLANCE, trouble(&mut news)).await {
                say!("{words}");
            }
        }
    }

    /// Says where it begins, and makes room for what is tried anew.
    async fn begin(&mut self, all: &Demand, anew: &[u64]) -> anyhow::Result<()> {
        if !anew.is_empty() {
            say!(
                "{}: tried anew",
                count(anew.len(), "job had failed", "jobs had failed")
            );
            self.record.reopen(anew);
            self.before = self.record.counted.over();
            // Why they failed is in the results.
            self.store.purge(&DeadPick::All).await?;
        }
        if self.before > 0 {
            let (before, all) = (self.before, all.jobs().max(self.before));
            say!("{before} of {all} jobs are over already; going on");
        }
        Ok(())
    }

    /// Hands all jobs to the store that are not over. Those that it has it knows by their names.
    async fn hand_in(&self, engine: &Engine) -> anyhow::Result<HandedIn> {
        let orders = self.orders().filter_map(|(line, read)| {
            let (order, _) = read.ok()?;
            self.record.wanted(line, order, self.failed)
        });
        let mut orders = orders.peekable();
        let mut handed_in = HandedIn::All;
        while orders.peek().is_some() {
            let submission = Submission {
                action: Some(self.spec()),
                rest: Rest::More,
                orders: orders.by_ref().take(BATCH).collect(),
            };
            for placed in engine.submit(submission).await? {
                // There is room for whatever the file holds: it is the action that is closed.
                if matches!(placed.destination, Destination::Rejected { .. }) {
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
            self.store.told(action).await?;
            self.record.read_on(action).await?;
        }
        Ok(())
    }

    /// The APIs that all waiting jobs want and the configuration does not know; none while anybody else
    /// still has work.
    async fn unserved(&self) -> anyhow::Result<Vec<String>> {
        let mut missing = Vec::new();
        for lane in self.store.lanes().await? {
            match Lane::of(&lane) {
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
    pub(super) fn summary(self, ended: Ended, dir: &std::path::Path) -> Summary {
        let Record {
            results, counted, ..
        } = self.record;
        Summary {
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
fn chapter(input: &Input, number: u32) -> anyhow::Result<Name> {
    let name = match number {
        1 => format!("run-{}", input.mark),
        number => format!("run-{}-{number}", input.mark),
    };
    Name::new(&name).context("a name of ours")
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
