//! Reasons for which jobs do not go on, one sentence each.
//!
//! The API's part is the client's own estimate, so that a job waits for the same words as a call. The rest is known
//! here alone: calls without a response, tenants, the global rate, pauses, delays, and the store.

use std::collections::BTreeSet;
use std::time::Duration;

use outflow_core::Nanos;
use outflow_store::{ActionReport, ControlScope, JobCounts, JobStore, Name, RemainingWork};

use crate::engine::{Engine, EngineContext};
use crate::error::BulkError;
use crate::submit::lane::Lane;

impl<S: JobStore> Engine<S> {
    /// Returns sentences about what the queued jobs and those in flight wait for now, of all lanes with work.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn waits(&self, counts: &JobCounts) -> Result<Vec<String>, BulkError> {
        if counts.open() == 0 {
            return Ok(Vec::new());
        }
        let lanes = self.store().lanes().await?;
        let mut sentences = self.context.pauses();
        sentences.extend(self.context.lane_waits(lanes.iter()));
        sentences.extend(delays(counts));
        sentences.extend(self.context.store_wait());
        Ok(sentences)
    }

    /// Notes who paused a tenant or an action, and why, for as long as the engine runs.
    pub fn note_pause(&self, scope: ControlScope, by: String) {
        self.context.pauses.lock().insert(scope, by);
    }

    /// Forgets a pause that ended.
    pub fn forget_pause(&self, scope: &ControlScope) {
        self.context.pauses.lock().remove(scope);
    }

    /// Returns sentences about what the jobs of an action wait for now.
    pub(super) async fn action_waits(
        &self,
        report: &ActionReport,
        remaining: &RemainingWork,
    ) -> Result<Vec<String>, BulkError> {
        let context = &self.context;
        if report.paused {
            let scope = ControlScope::Action(report.spec.id.clone());
            return Ok(vec![format!("the action is paused{}", context.paused_by(&scope))]);
        }
        let mut sentences = Vec::new();
        if report.held > 0 {
            sentences.push(self.held_tenants(report.held, remaining).await?);
        }
        let lanes: BTreeSet<_> = remaining.places.iter().map(|place| &place.lane).collect();
        sentences.extend(if lanes.is_empty() {
            // All of its jobs are in flight, and the store does not say where.
            let served = context.served_lanes.lock().clone();
            context.lane_waits(served.iter())
        } else {
            context.lane_waits(lanes.into_iter())
        });
        sentences.extend(context.tenant_waits(remaining));
        sentences.extend(delays(&report.counts));
        sentences.extend(context.store_wait());
        Ok(sentences)
    }

    /// Names the paused tenants that hold an action up.
    async fn held_tenants(&self, held: u64, remaining: &RemainingWork) -> Result<String, BulkError> {
        let tenants: BTreeSet<_> = remaining.places.iter().map(|place| &place.tenant).collect();
        for tenant in tenants.into_iter().take(SEARCHED) {
            let report = self.store().tenant(tenant).await?;
            if report.is_some_and(|report| report.paused) {
                let by = self.context.paused_by(&ControlScope::Tenant(tenant.clone()));
                let more = match held - 1 {
                    0 => String::new(),
                    more => format!("; {more} more are paused"),
                };
                return Ok(format!("tenant {tenant} is paused{by}{more}"));
            }
        }
        Ok(format!("{held} of its tenants are paused by an operator"))
    }
}

impl<S> EngineContext<S> {
    /// Returns the sentences of lanes, of the first few if there are many.
    fn lane_waits<'l>(&self, lanes: impl Iterator<Item = &'l Name>) -> Vec<String> {
        let mut sentences: Vec<_> = lanes.filter_map(|lane| self.lane_wait(lane)).collect();
        if let Some(more) = sentences.len().checked_sub(SHOWN).filter(|more| *more > 0) {
            sentences.truncate(SHOWN);
            sentences.push(format!("and {more} more reasons"));
        }
        sentences.extend(self.global_wait());
        sentences
    }

    fn lane_wait(&self, lane: &Name) -> Option<String> {
        let mut parts = Vec::new();
        match Lane::from_name(lane) {
            Lane::Handler(name) if !self.handlers.contains_key(&name) => {
                return Some(format!("no handler is called {name:?}: its jobs wait for one"));
            }
            Lane::Handler(_) => {}
            Lane::Api { api, .. } => match Lane::from_name(lane).upstream(&self.client) {
                None => {
                    return Some(format!(
                        "no API is called {api:?}: its jobs wait until the configuration has it"
                    ));
                }
                Some((upstream, target)) => parts.extend(upstream.explain(target).map(|estimate| {
                    let left = estimate.eta.filter(|at| *at < Nanos::MAX);
                    let left = left.map(|at| at.since(upstream.now()));
                    let left = left.filter(|left| *left >= WORTH_TELLING);
                    let reason = estimate.reason.to_string();
                    match left {
                        // A state names its own end.
                        Some(left) if !reason.contains("for another") => {
                            format!("{reason}, for another {}", span(left))
                        }
                        _ => reason,
                    }
                })),
            },
        }
        parts.extend(self.attempt_wait(lane));
        (!parts.is_empty()).then(|| format!("{lane}: {}", parts.join("; ")))
    }

    /// Says how long calls of a lane wait for a response, and its last error.
    fn attempt_wait(&self, lane: &Name) -> Vec<String> {
        let (history, now) = (self.lanes.get(lane), self.clock.now());
        let pending = history.pending(now).filter(|pending| pending.oldest >= WORTH_TELLING);
        let pending = pending.map(|pending| {
            let calls = if pending.count == 1 { "call waits" } else { "calls wait" };
            format!(
                "{} {calls} for a response, the longest for {}",
                pending.count,
                span(pending.oldest)
            )
        });
        let error = history.last_error().map(|error| {
            let ago = span(now.since(error.at));
            format!("last error {ago} ago: {}", error.message)
        });
        pending.into_iter().chain(error).collect()
    }

    /// Says which tenants used up their own limits.
    fn tenant_waits(&self, remaining: &RemainingWork) -> Vec<String> {
        let tenants: BTreeSet<_> = remaining.places.iter().map(|place| &place.tenant).collect();
        let limits = &self.start_limits.tenants;
        let waits = tenants.into_iter().filter_map(|tenant| {
            let estimate = limits.explain(tenant)?;
            Some(format!("tenant {tenant}: {}", estimate.reason))
        });
        waits.take(SHOWN).collect()
    }

    fn global_wait(&self) -> Option<String> {
        let rate = self.settings.load().global_rate;
        let is_used_up = self.start_limits.global.is_used_up(self.clock.now());
        is_used_up.then(|| format!("`bulk.global_rate` of {rate}/s is used up"))
    }

    fn store_wait(&self) -> Option<String> {
        let failed = self.store_error.lock().clone()?;
        let ago = self.clock.now().since(failed.at);
        (ago < RECENT).then(|| format!("the store failed {} ago: {}", span(ago), failed.message))
    }

    /// Returns the sentences of pauses whose author is known, of the first few if there are many.
    fn pauses(&self) -> Vec<String> {
        let pauses = self.pauses.lock();
        let sentence = |(scope, by): (&ControlScope, &String)| match scope {
            ControlScope::Tenant(name) => format!("tenant {name} is paused by {by}"),
            ControlScope::Action(name) => format!("action {name} is paused by {by}"),
        };
        let mut sentences: Vec<_> = pauses.iter().map(sentence).collect();
        sentences.sort_unstable();
        sentences.truncate(SHOWN);
        sentences
    }

    fn paused_by(&self, scope: &ControlScope) -> String {
        let by = self.pauses.lock().get(scope).cloned();
        format!(" by {}", by.unwrap_or_else(|| "an operator".to_owned()))
    }
}

/// Says how many jobs wait for an instant.
fn delays(counts: &JobCounts) -> Vec<String> {
    let jobs = |count: u64| if count == 1 { "job waits" } else { "jobs wait" };
    let delayed = (counts.delayed > 0).then(|| {
        let words = jobs(counts.delayed);
        format!("{} {words} for a retry or for `not_before`", counts.delayed)
    });
    let deferred = (counts.non_ready > 0).then(|| {
        let words = jobs(counts.non_ready);
        format!("{} {words} because the scheduler deferred them", counts.non_ready)
    });
    delayed.into_iter().chain(deferred).collect()
}

/// Formats a span in whole seconds.
pub(crate) fn span(span: Duration) -> String {
    match span.as_secs() {
        seconds @ 0..60 => format!("{seconds} s"),
        seconds @ 60..3_600 => format!("{} min {} s", seconds / 60, seconds % 60),
        seconds => format!("{} h {} min", seconds / 3_600, seconds / 60 % 60),
    }
}

/// Shorter waits are over before they are read.
const WORTH_TELLING: Duration = Duration::from_secs(1);

/// An error of the store that was not repeated for this long is over.
const RECENT: Duration = Duration::from_secs(10);

/// More sentences than this are hard to read.
const SHOWN: usize = 3;

/// Tenants that are searched for a pause: one reason is enough.
const SEARCHED: usize = 100;
