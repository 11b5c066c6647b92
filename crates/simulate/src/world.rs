//! Event loop of a scenario: plays events in order of time until every job is done.

use std::collections::BTreeMap;
use std::mem;

use outflow_core::{Nanos, ThrottleCounts};

use super::error::SimulateError;
use super::network::Network;
use super::scenario::{RateChange, Scenario};
use super::scheduler::{Job, JobMove, Scheduler};
use super::server::{PeakWindow, ServerReply, SimulatedServer};

/// State of one run.
pub(crate) struct SimWorld {
    events: BTreeMap<(Nanos, u64), SimEvent>,
    planned: u64,
    network: Network,
    server: SimulatedServer,
    scheduler: Box<dyn Scheduler>,
    jobs: Vec<SimRecord>,
    next_wake: Option<Nanos>,
    sends: u64,
    done: usize,
}

/// History of a run.
#[derive(Debug)]
pub(crate) struct SimHistory {
    /// Jobs in the order of their last send.
    pub(crate) served: Vec<JobService>,
    pub(crate) throttles: ThrottleCounts,
    /// Requests that the API throttled.
    pub(crate) throttled: u64,
    pub(crate) peak: PeakWindow,
}

/// Send and end of one job.
#[derive(Clone, Copy, Debug)]
pub(crate) struct JobService {
    pub(crate) tenant: usize,
    pub(crate) sent: Nanos,
    pub(crate) done: Nanos,
}

#[derive(Clone, Copy, Debug)]
enum SimEvent {
    /// A tenant submits its jobs.
    Submit { tenant: usize, first: Job, end: Job },
    /// The client learns a new rate.
    Learn(u64),
    /// A request reaches the API.
    Arrive(Job),
    /// The response reaches the client.
    Return(Job, ServerReply),
    /// The scheduler requested this call.
    Wake,
}

#[derive(Clone, Copy, Debug, Default)]
struct SimRecord {
    tenant: usize,
    throttles: u64,
    /// Number and instant of its last send.
    send: u64,
    sent: Nanos,
    done: Option<Nanos>,
}

impl SimWorld {
    pub(crate) fn new(scenario: &Scenario, network: Network, scheduler: Box<dyn Scheduler>) -> Self {
        let mut world = Self {
            events: BTreeMap::new(),
            planned: 0,
            network,
            server: SimulatedServer::new(scenario),
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

    /// Plays events until all jobs are done.
    pub(crate) fn play(mut self) -> Result<SimHistory, SimulateError> {
        let mut moves = Vec::new();
        while self.done < self.jobs.len() {
            let Some((&(now, _), _)) = self.events.first_key_value() else {
                break;
            };
            while let Some(entry) = self.events.first_entry()
                && entry.key().0 == now
            {
                let event = entry.remove();
                self.apply(now, event);
            }
            self.scheduler.act(now, &mut moves);
            for step in moves.drain(..) {
                self.execute(now, step);
            }
            self.plan_wake(now);
        }
        let undone = self.jobs.len() - self.done;
        if undone > 0 {
            return Err(SimulateError::Unfinished(undone));
        }
        Ok(self.history())
    }

    fn apply(&mut self, now: Nanos, event: SimEvent) {
        match event {
            SimEvent::Submit { tenant, first, end } => {
                self.scheduler.submit(tenant, first..end);
            }
            SimEvent::Learn(rate) => self.scheduler.learn(now, rate),
            SimEvent::Arrive(job) => {
                let tenant = self.jobs.get(job).map_or(0, |record| record.tenant);
                let reply = self.server.arrive(now, tenant);
                let back = now.saturating_add(self.network.draw());
                self.plan(back, SimEvent::Return(job, reply));
            }
            SimEvent::Return(job, reply) => {
                self.record_reply(now, job, reply);
                self.scheduler.on_reply(now, job, reply);
            }
            SimEvent::Wake => self.next_wake = None,
        }
    }

    fn record_reply(&mut self, now: Nanos, job: Job, reply: ServerReply) {
        let Some(record) = self.jobs.get_mut(job) else {
            return;
        };
        match reply {
            ServerReply::Accepted => {
                record.done = Some(now);
                self.done += 1;
            }
            ServerReply::Throttled(_) => record.throttles += 1,
        }
    }

    fn execute(&mut self, now: Nanos, step: JobMove) {
        match step {
            JobMove::Send(job) => {
                self.sends += 1;
                if let Some(record) = self.jobs.get_mut(job) {
                    record.send = self.sends;
                    record.sent = now;
                }
                let there = now.saturating_add(self.network.draw());
                self.plan(there, SimEvent::Arrive(job));
            }
            JobMove::Defer(job) => {
                if let Some(record) = self.jobs.get_mut(job) {
                    record.throttles += 1;
                }
            }
        }
    }

    fn plan_submissions(&mut self, scenario: &Scenario) {
        for (tenant, plan) in scenario.tenants.iter().enumerate() {
            let first = self.jobs.len();
            let record = SimRecord {
                tenant,
                ..SimRecord::default()
            };
            self.jobs.extend((0..plan.jobs).map(|_| record));
            let end = self.jobs.len();
            self.plan(plan.at, SimEvent::Submit { tenant, first, end });
        }
    }

    /// Plans rate changes. The client learns a lower rate before it holds, so that no request arrives late,
    /// and a higher one when it holds.
    fn plan_changes(&mut self, changes: &[RateChange]) {
        let mut before = u64::MAX;
        for change in changes {
            let notice = 2 * (self.network.latency + self.network.jitter);
            let learned = if change.rate < before {
                change.at.saturating_sub(notice)
            } else {
                change.at
            };
            self.plan(learned, SimEvent::Learn(change.rate));
            before = change.rate;
        }
    }

    fn plan_wake(&mut self, now: Nanos) {
        let Some(at) = self.scheduler.wakeup() else {
            return;
        };
        // A wake-up in the past would repeat this instant forever.
        let at = at.max(Nanos::from_nanos(now.as_nanos().saturating_add(1)));
        if self.next_wake.is_none_or(|planned| at < planned) {
            self.next_wake = Some(at);
            self.plan(at, SimEvent::Wake);
        }
    }

    fn plan(&mut self, at: Nanos, event: SimEvent) {
        self.planned += 1;
        self.events.insert((at, self.planned), event);
    }

    fn history(mut self) -> SimHistory {
        let mut throttles = ThrottleCounts::NONE;
        let mut records = mem::take(&mut self.jobs);
        records.sort_by_key(|record| record.send);
        let served = records
            .iter()
            .filter_map(|record| {
                throttles.record(record.throttles);
                Some(JobService {
                    tenant: record.tenant,
                    sent: record.sent,
                    done: record.done?,
                })
            })
            .collect();
        SimHistory {
            served,
            throttles,
            throttled: self.server.throttled,
            peak: self.server.peak,
        }
    }
}
