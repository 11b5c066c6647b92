//! Admission for one API: acquire, send, settle.
//!
//! [`Upstream::acquire`] returns a permit or a refusal, and [`Permit::settle`] takes the result of the
//! call. The HTTP client, the tower layer and programs with their own client use these two alone, so no
//! path bypasses a limit.

mod acquire;
mod admission_check;
mod circuit;
mod effects;
mod endpoint;
mod explain;
mod fleet_share;
mod group;
mod in_flight;
mod learning;
mod limits;
mod options;
mod permit;
mod permit_pool;
mod reconfigure;
mod report;
mod routing;
mod shared;
mod shared_facts;
mod sharing;
mod state;
mod take;
#[cfg(test)]
mod tests;
mod throughput;
mod timer;
mod wait_queue;
mod wall_clock;

use std::fmt;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use http::Method;
use outflow_core::{Decision, HealthOverride, HealthState, Limit, Nanos};
use smol_str::SmolStr;

pub use acquire::Acquire;
pub use explain::{
    CallDecision, ConcurrencyRule, LoweredBy, LoweredLimit, OverrideNote, StateCause, UnansweredCalls, WaitEstimate,
    WaitReason,
};
pub use options::{AcquireOptions, Target};
pub use permit::{AttemptResult, LimitFeedback, PendingBody, Permit, Verdict};
pub use report::{
    CircuitRate, ConcurrencyBound, EffectiveLimit, GroupReport, HealthReport, LimitReport, LimitScope, RemainingQuota,
    SharedUsage, UpstreamReport, UsageHistory,
};
pub use routing::InvalidRules;
pub use shared::SharedTimer;
pub use sharing::LimitSharing;

use endpoint::CallLabel;
pub(crate) use explain::ReadableSpan;
use shared::SharedState;
use state::{AdmissionState, Lifecycle};
use wait_queue::{AcquireRequest, WaitDeadline};

use crate::event::Events;
use crate::refusal::{Refusal, RefusalReason};
use crate::rules::{HealthScope, Rules, WaitMode};

/// Admission for one API. Clones share it.
///
/// ```
/// use std::sync::Arc;
/// use outflow::{AttemptResult, Events, Rules, SystemClock, Upstream};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let rules = Rules::with_limit("10/s".parse()?);
/// let github = Upstream::new("github", rules, Arc::new(SystemClock::new()), Events::new())?;
///
/// let target = github.route(&http::Method::GET, "/repos/rust-lang/rust");
/// let mut permit = github.acquire(target).await?;
/// permit.sending();
/// // ... send it with your own client ...
/// let verdict = permit.settle(AttemptResult::status(200));
/// assert!(!verdict.is_worth_a_retry());
/// # Ok(())
/// # }
/// ```
///
/// After a fork, the child's copy waits with a timer thread of its own and counts its own calls: give
/// parent and child their parts of the limits. Fork while no call is waiting and no other thread uses the
/// upstream, as its lock would stay locked in the child.
#[derive(Clone)]
pub struct Upstream {
    shared: Arc<SharedState>,
}

impl Upstream {
    /// Creates an upstream with these rules.
    ///
    /// # Errors
    /// If the rules contradict each other.
    pub fn new(name: &str, rules: Rules, timer: SharedTimer, events: Events) -> Result<Self, InvalidRules> {
        Ok(Self {
            shared: SharedState::new(SmolStr::new(name), &rules, timer, events)?,
        })
    }

    /// Replaces the rules in one step: no call sees a part of them. Usage and health stay, waiters wait
    /// under the new rules, and attempts in flight are settled under them. A raised limit lets waiters
    /// start at once.
    ///
    /// A limit with the window of an old one keeps its usage. A new limit starts with the usage that
    /// other limits know of its window, so no change adds quota. A group keeps its usage under its name,
    /// an alias, or another name with the same limits; the usage of a dropped group counts in the one
    /// that takes its calls. The [`HealthScope`](crate::HealthScope) does not change.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use outflow::{Events, Rules, SystemClock, Upstream};
    ///
    /// let rules = |rate: &str| Ok::<_, outflow::core::InvalidRate>(Rules::with_limit(rate.parse()?));
    /// let github = Upstream::new("github", rules("1/h")?, Arc::new(SystemClock::new()), Events::new())?;
    /// let target = github.route(&http::Method::GET, "/");
    /// let first = github.try_acquire(target)?;
    /// assert!(github.try_acquire(target).is_err());
    /// github.reconfigure(&rules("2/h")?)?;
    /// let second = github.try_acquire(target)?;
    /// assert!(github.try_acquire(target).is_err(), "two in all, not two more");
    /// # drop((first, second));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If the rules contradict each other; nothing is changed then.
    pub fn reconfigure(&self, rules: &Rules) -> Result<(), InvalidRules> {
        routing::check_rules(rules)?;
        self.shared.reconfigure(rules);
        Ok(())
    }

    /// Returns the API's name.
    pub fn name(&self) -> &SmolStr {
        &self.shared.name
    }

    /// Returns the group and the cost of a call.
    pub fn route(&self, method: &Method, path: &str) -> Target {
        self.shared.routes.load().route(method, path)
    }

    /// Returns the group of this name or alias.
    pub fn group(&self, name: &str) -> Option<Target> {
        self.shared.routes.load().group(name)
    }

    /// Returns the name of a target's group.
    pub fn group_name(&self, target: Target) -> SmolStr {
        self.shared.routes.load().group_name(target)
    }

    /// Returns the target with the label of an endpoint, which its permit, its events and the log then
    /// name. A call that [`route`](Self::route) finds by a pattern has this pattern as its label.
    ///
    /// A label is a short name from a small set, such as `ticker`. An upstream knows a thousand of at
    /// most 64 bytes; more are called `other`. Metrics have no label for it.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use outflow::{Events, Group, Rules, SystemClock, Upstream};
    ///
    /// let mut rules = Rules::with_limit("30/s".parse()?);
    /// rules.groups.push(Group::new("order", vec![]));
    /// let upbit = Upstream::new("upbit", rules, Arc::new(SystemClock::new()), Events::new())?;
    ///
    /// let order = upbit.group("order").ok_or("no such group")?;
    /// let place = upbit.endpoint(order, "place");
    /// assert_eq!(upbit.try_acquire(place)?.endpoint().as_deref(), Some("place"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn endpoint(&self, target: Target, name: &str) -> Target {
        let endpoint = self.shared.endpoints.label(name);
        Target { endpoint, ..target }
    }

    /// Returns the label of a target's endpoint, if it has one.
    pub fn endpoint_name(&self, target: Target) -> Option<SmolStr> {
        self.shared.endpoints.name(target.endpoint)
    }

    /// Acquires a permit for one call and waits for it as the rules allow. Nothing happens before the
    /// first poll, and dropping the future refunds everything.
    #[inline]
    pub fn acquire(&self, target: Target) -> Acquire {
        self.acquire_with(target, AcquireOptions::new())
    }

    /// Acquires a permit with a priority, a deadline or a wait mode.
    #[inline]
    pub fn acquire_with(&self, target: Target, options: AcquireOptions) -> Acquire {
        Acquire::new(Arc::clone(&self.shared), self.request(target, options))
    }

    /// Acquires a permit without waiting.
    ///
    /// # Errors
    /// If the call cannot start now; the refusal has the reason and, if known, the wait.
    #[inline]
    pub fn try_acquire(&self, target: Target) -> Result<Permit, Refusal> {
        self.try_acquire_with(target, AcquireOptions::new())
    }

    /// Acquires a permit without waiting, with options. Their wait mode has no effect.
    ///
    /// # Errors
    /// If the call cannot start now; the refusal has the reason and, if known, the wait.
    pub fn try_acquire_with(&self, target: Target, options: AcquireOptions) -> Result<Permit, Refusal> {
        let acquire = self.acquire_with(target, options.with_mode(WaitMode::Reject));
        let mut context = Context::from_waker(Waker::noop());
        match pin!(acquire).poll(&mut context) {
            Poll::Ready(result) => result,
            // The answer of the ledger comes soon.
            Poll::Pending => Err(Refusal {
                reason: RefusalReason::Busy(WaitReason::Ledger),
                retry_after: Some(LEDGER_ROUND_TRIP),
            }),
        }
    }

    /// Decides whether a call could start now, or when, behind the current waiters. It takes nothing,
    /// and other calls may start first.
    pub fn check(&self, target: Target) -> Decision {
        self.check_with(target, AcquireOptions::new())
    }

    /// Decides whether a call with options could start now, or when.
    pub fn check_with(&self, target: Target, options: AcquireOptions) -> Decision {
        let request = self.request(target, options);
        self.shared.with(|state, now| state.check(request, now))
    }

    /// Decides when so many units fit one configured limit of a group or of the API, whatever other limits say.
    /// Returns `None` if it has no such limit.
    pub fn check_limit(&self, target: Target, limit: &Limit, units: u64) -> Option<Decision> {
        let group = self.request(target, AcquireOptions::new()).group;
        self.shared
            .with(|state, now| state.check_limit((group, limit), units, now))
    }

    /// Estimates the wait of a call: its cause, the calls ahead and the start. Returns `None` if the
    /// call could start now. Like [`check`](Self::check) it takes nothing.
    pub fn explain(&self, target: Target) -> Option<WaitEstimate> {
        self.explain_with(target, AcquireOptions::new())
    }

    /// Estimates the wait of a call with options.
    pub fn explain_with(&self, target: Target, options: AcquireOptions) -> Option<WaitEstimate> {
        let request = self.request(target, options);
        self.shared.with(|state, now| state.explain_request(request, now))
    }

    /// Decides what would happen to a call now: it starts, waits or is refused at once, with the cause. Like
    /// [`check`](Self::check) it takes nothing.
    pub fn decide(&self, target: Target, options: AcquireOptions) -> CallDecision {
        let request = self.request(target, options);
        self.shared.with(|state, now| state.decide(request, now))
    }

    /// Waits for the ledger's answer about a call that lacks no more than it: without it a decision would not know what
    /// other processes use. The units that come with it are returned if no call uses them.
    pub async fn ask_ledger(&self, target: Target) {
        let request = self.request(target, AcquireOptions::new());
        let mut end = None;
        while let Some(patience) = self.shared.with(|state, now| state.ask_ledger(request, now)) {
            let now = self.now();
            if now >= *end.get_or_insert(now.saturating_add(patience)) {
                break;
            }
            tokio::time::sleep(LEDGER_ROUND_TRIP).await;
        }
    }

    /// Returns the time on the timeline of deadlines.
    pub fn now(&self) -> Nanos {
        self.shared.now()
    }

    /// Returns its clock.
    pub fn timer(&self) -> &SharedTimer {
        &self.shared.timer
    }

    /// Returns its event stream.
    pub fn events(&self) -> &Events {
        &self.shared.events
    }

    /// Returns the health of a target's circuit.
    pub fn state(&self, target: Target) -> HealthState {
        let group = self.shared.routes.load().resolve(target);
        self.shared.with(|state, _| state.health_state(group))
    }

    /// Returns true if a target's circuit lets no call go now, not even a probe.
    pub(crate) fn is_asleep(&self, target: Target) -> bool {
        let group = self.shared.routes.load().resolve(target);
        self.shared.with(|state, now| state.is_asleep(group, now))
    }

    /// Returns true if an operator forces the health of a target's circuit.
    pub fn is_forced(&self, target: Target) -> bool {
        let group = self.shared.routes.load().resolve(target);
        self.shared.with(|state, _| state.is_forced(group))
    }

    /// Returns the instant at which the latest successful call was sent to the API, or in the target's group if
    /// it has its own health.
    pub fn last_success(&self, target: Target) -> Option<Nanos> {
        let group = self.shared.routes.load().resolve(target);
        self.shared
            .with(|state, _| state.pool.circuits.get_for(group).last_served)
    }

    /// Returns the quota of a target's fullest limit, if it has limits.
    pub fn remaining(&self, target: Target) -> Option<RemainingQuota> {
        let group = self.shared.routes.load().resolve(target);
        self.shared.with(|state, now| state.collector(now).remaining(group))
    }

    /// Returns the limits in effect for a target, those of the whole API first.
    pub fn effective_limits(&self, target: Target) -> Vec<EffectiveLimit> {
        let group = self.shared.routes.load().resolve(target);
        self.shared
            .with(|state, now| state.collector(now).effective_limits(group))
    }

    /// Returns the lowest round trip to the API, less what it does not know; `None` with too few recent responses.
    /// [`RequestTiming`](outflow_core::RequestTiming) tells with it when a call arrived at the latest.
    pub fn min_rtt(&self) -> Option<Duration> {
        self.shared.with(|state, now| state.pool.in_flight.min_rtt(now))
    }

    /// Shares the limits with every process that uses the same account of the ledger, from now on. What other
    /// processes sent counts, and what was sent before a restart. Another account replaces the one before.
    pub fn share(&self, sharing: LimitSharing) {
        self.shared.begin_sharing(sharing);
    }

    /// Reports all calls to the ledger and returns the units that this process holds, before it ends.
    pub fn leave_accounts(&self) {
        self.shared.leave_accounts();
    }

    /// Forces the health of the API, or of one group with its own health, until it is released.
    pub fn force_health(&self, group: Option<Target>, health: HealthOverride) {
        self.force_health_by(group, health, &OverrideNote::default());
    }

    /// Forces the health with a note of who did it and why, which refusals and reports repeat.
    pub fn force_health_by(&self, group: Option<Target>, health: HealthOverride, note: &OverrideNote) {
        let group = group.map(|target| self.shared.routes.load().resolve(target));
        self.shared
            .with(|state, now| state.force_health(group, health, note, now));
    }

    /// Ends an override.
    pub fn release_health(&self, group: Option<Target>) {
        let group = group.map(|target| self.shared.routes.load().resolve(target));
        self.shared.with(|state, now| state.release_health(group, now));
    }

    /// Reports its health, limits and groups, with the usage and the history of each limit.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use outflow::{Events, Group, Rules, SystemClock, Upstream};
    /// use outflow::core::Limit;
    ///
    /// let mut rules = Rules::unlimited();
    /// rules.groups.push(Group::new("order", vec![Limit::sliding("12/s".parse()?)]));
    /// let upbit = Upstream::new("upbit", rules, Arc::new(SystemClock::new()), Events::new())?;
    /// upbit.try_take(upbit.group("order").ok_or("no such group")?)?;
    ///
    /// for group in upbit.report().groups {
    ///     for limit in &group.limits {
    ///         let (usage, history) = (&limit.usage, &limit.history);
    ///         println!("{} {}: {}/{}", group.name, limit.limit.rate(), usage.weight, usage.limit);
    ///         println!("  peak {}, recent windows {:?}", usage.peak, history.windows);
    ///     }
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn report(&self) -> UpstreamReport {
        self.shared.with(AdmissionState::report)
    }

    /// Returns each concurrency that delays waiting calls which the limits allow, with its group if groups have
    /// their own.
    pub fn concurrency_bounds(&self) -> Vec<(Option<SmolStr>, ConcurrencyBound)> {
        self.shared.with(AdmissionState::concurrency_bounds)
    }

    /// Checks usage alerts and returns unused memory. Call it about once a second; no decision depends
    /// on it.
    pub fn prune(&self) {
        self.shared.with(AdmissionState::prune);
    }

    /// Returns the heap memory of waiters and attempts in bytes. Reports include the memory of meters.
    pub fn memory_bytes(&self) -> usize {
        self.shared.with(|state, _| state.memory())
    }

    /// Refuses all waiters and all new calls; attempts in flight continue.
    pub fn close(&self) {
        self.shared.with(|state, now| state.refuse_all(Lifecycle::Closed, now));
    }

    /// Closes an API that the configuration no longer has.
    pub(crate) fn remove(&self) {
        self.shared.with(|state, now| state.refuse_all(Lifecycle::Removed, now));
    }

    /// Accepts calls again after a removal.
    pub(crate) fn restore(&self) {
        self.shared.with(|state, _| state.restore());
    }

    pub(crate) fn health_scope(&self) -> HealthScope {
        self.shared.with(|state, _| state.pool.circuits.scope)
    }

    /// Checks that rules are consistent.
    pub(crate) fn check_rules(rules: &Rules) -> Result<(), InvalidRules> {
        routing::check_rules(rules)
    }

    /// Returns true if no call is in flight.
    pub fn is_idle(&self) -> bool {
        self.shared.with(|state, _| state.pool.circuits.is_idle())
    }

    #[inline]
    fn request(&self, target: Target, options: AcquireOptions) -> AcquireRequest {
        let routes = self.shared.routes.load();
        AcquireRequest {
            group: routes.resolve(target),
            label: CallLabel {
                endpoint: target.endpoint,
                trace: options.trace,
            },
            cost: target.cost,
            class: options.priority,
            deadline: options.deadline.unwrap_or(WaitDeadline::Within(routes.max_wait)),
            mode: options.mode.unwrap_or(routes.mode),
            position: options.standing,
        }
    }
}

impl fmt::Debug for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Upstream")
            .field("name", &self.shared.name)
            .finish_non_exhaustive()
    }
}

/// A caller that cannot wait asks again after this time.
const LEDGER_ROUND_TRIP: Duration = Duration::from_millis(1);

/// Returns the index of a group in a list by number.
#[inline]
fn group_slot(group: u32) -> usize {
    usize::try_from(group).unwrap_or(usize::MAX)
}
