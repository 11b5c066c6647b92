//! Plays events in the order of time until every job is done.

use std::collections::BTreeMap;
use std::mem;

use anyhow::ensure;
use outflow_core::{Nanos, Throttles};

use super::network::Network;
use super::scenario::{Change, Scenario};
use super::scheduler::{Job, Move, Scheduler};
use super::server::{Answer, Peak, Server};

/// One run in the making.
pub(super) struct World {
    events: BTreeMap<(Nanos, u64), Event>,
    planned: u64,
    network: Network,
    server: Server,
    scheduler: Box<dyn Scheduler>,
    jobs: Vec<Record>,
    next_wake: Option<Nanos>,
    sends: u64,
    done: usize,
}

/// What happened, for whoever measures it.
#[derive(Debug)]
pub(super) struct History {
    /// The jobs in the order in which they were sent for the last time.
    pub(super) served: Vec<Service>,
    pub(super) throttles: Throttles,
    pub(super) refused: u64,
    pub(super) peak: Peak,
}

/// One job that was done.
#[derive(Clone, Copy, Debug)]
pub(super) struct Service {
    pub(super) tenant: usize,
    pub(super) sent: Nanos,
    pub(super) done: Nanos,
}

#[derive(Clone, Copy, Debug)]
enum Event {
    /// The jobs of a tenant come in.
    Submit { tenant: usize, first: Job, end: Job },
    /// The client learns of another rate.
    Learn(u64),
    /// A request reaches the API.
    Arrive(Job),
    /// Its answer is back.
    Return(Job, Answer),
    /// The scheduler asked to be called.
    Wake,
}

#[derive(Clone, Copy, Debug)]
struct Record {
    tenant: usize,
    throttles: u64,
    /// Which send of all it was, and when; the last one if it was sent again.
    send: u64,
    sent: Nanos,
    done: Option<Nanos>,
}

impl World {
    pub(super) fn new(
        scenario: &Scenario,
        network: Network,
        scheduler: Box<dyn Scheduler>,
    ) -> Self {
        let mut world = Self {
            events: BTreeMap::new(),
            planned: 0,
            network,
            server: Server::new(scenario),
            scheduler,
            jobs: Vec::new(),
            next_wake: None,
            sends: 0,
            done: 0,
        };
        world.plan_submissions(scenario);
        world.plan_changes(&scenario.changes);
        world
    }

    /// Plays until nothing is left to do.
    pub(super) fn play(mut self) -> anyhow::Result<History> {
        let mut moves = Vec::new();
        while self.done < self.jobs.len() {
            let Some((&(now, _), _)) = self.events.first_key_value() else {
                break;
            };
            while let Some(entry) = self.events.first_entry()
                && entry.key().0 == now
            {
                let event = entry.remove();
                self.happen(now, event);
            }
            self.scheduler.act(now, &mut moves);
            for step in moves.drain(..) {
                self.follow(now, step);
            }
            self.plan_wake(now);
        }
        let undone = self.jobs.len() - self.done;
        ensure!(undone == 0, "{undone} jobs were never done: this is a bug");
        Ok(self.history())
    }

    fn happen(&mut self, now: Nanos, event: Event) {
        match event {
            Event::Submit { tenant, first, end } => {
                self.scheduler.submit(tenant, first..end);
            }
            Event::Learn(rate) => self.scheduler.learn(now, rate),
            Event::Arrive(job) => {
                let tenant = self.jobs.get(job).map_or(0, |record| record.tenant);
                let answer = self.server.arrive(now, tenant);
                let back = now.saturating_add(self.network.draw());
                self.plan(back, Event::Return(job, answer));
            }
            Event::Return(job, answer) => {
                self.conclude(now, job, answer);
                self.scheduler.answered(now, job, answer);
            }
            Event::Wake => self.next_wake = None,
        }
    }

    fn conclude(&mut self, now: Nanos, job: Job, answer: Answer) {
        let Some(record) = self.jobs.get_mut(job) else {
            return;
        };
        match answer {
            Answer::Accepted => {
                record.done = Some(now);
                self.done += 1;
            }
            Answer::Refused(_) => record.throttles += 1,
        }
    }

    fn follow(&mut self, now: Nanos, step: Move) {
        match step {
            Move::Send(job) => {
                self.sends += 1;
                if let Some(record) = self.jobs.get_mut(job) {
                    record.send = self.sends;
                    record.sent = now;
                }
                let there = now.saturating_add(self.network.draw());
                self.plan(there, Event::Arrive(job));
            }
            Move::PutBack(job) => {
                if let Some(record) = self.jobs.get_mut(job) {
                    record.throttles += 1;
                }
            }
        }
    }

    fn plan_submissions(&mut self, scenario: &Scenario) {
        for (tenant, plan) in scenario.tenants.iter().enumerate() {
            let first = self.jobs.len();
            let jobs = (0..plan.jobs).map(|_| Record::new(tenant));
            self.jobs.extend(jobs);
            let end = self.jobs.len();
            self.plan(plan.at, Event::Submit { tenant, first, end });
        }
    }

    /// A lower rate is announced before it holds, so that nothing is on its way too late; a higher
    /// one is used when it holds.
    fn plan_changes(&mut self, changes: &[Change]) {
        let mut before = u64::MAX;
        for change in changes {
            let notice = 2 * (self.network.latency() + self.network.jitter());
            let told = if change.rate < before {
                change.at.saturating_sub(notice)
            } else {
                change.at
            };
            self.plan(told, Event::Learn(change.rate));
            before = change.rate;
        }
    }

    fn plan_wake(&mut self, now: Nanos) {
        let Some(at) = self.scheduler.wakeup() else {
            return;
        };
        // A wake-up in the past would play this instant for ever.
        let at = at.max(Nanos::from_nanos(now.as_nanos().saturating_add(1)));
        if self.next_wake.is_none_or(|planned| at < planned) {
            self.next_wake = Some(at);
            self.plan(at, Event::Wake);
        }
    }

    fn plan(&mut self, at: Nanos, event: Event) {
        self.planned += 1;
        self.events.insert((at, self.planned), event);
    }

    fn history(mut self) -> History {
        let mut throttles = Throttles::NONE;
        let mut records = mem::take(&mut self.jobs);
        records.sort_by_key(|record| record.send);
        let served = records
            .iter()
            .filter_map(|record| {
                throttles.record(record.throttles);
                Some(Service {
                    tenant: record.tenant,
                    sent: record.sent,
                    done: record.done?,
                })
            })
            .collect();
        History {
            served,
            throttles,
            refused: self.server.refused(),
            peak: self.server.peak(),
        }
    }
}

impl Record {
    const fn new(tenant: usize) -> Self {
        Self {
            tenant,
            throttles: 0,
            send: 0,
            sent: Nanos::ZERO,
            done: None,
        }
    }
}
