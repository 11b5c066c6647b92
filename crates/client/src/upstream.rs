//! The one door to an API: admit, send, settle.
//!
//! Everything that Outflow knows about an API stands behind two calls: [`Upstream::admit`] answers a
//! permit or a refusal, [`Permit::settle`] takes back what became of the call. The HTTP client, the
//! tower layer and programs that send by other means all use these two and nothing else, so there is
//! no second way on which a limit could be missed.

mod acquire;
mod circuit;
mod fleet_share;
mod group;
mod limits;
mod permit;
mod priority_aging;
mod report;
mod routing;
mod shared;
mod slow_start;
mod state;
mod throughput;
mod wait_queue;

use std::fmt;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use http::Method;
use outflow_core::{Cost, Decision, HealthOverride, HealthState, Nanos, Priority};
use smol_str::SmolStr;

pub use acquire::Acquire;
pub use fleet_share::FleetShare;
pub use permit::{AttemptResult, LimitFeedback, PendingBody, Permit, Verdict};
pub use report::{
    Alerted, EffectiveLimit, GroupReport, HealthReport, LimitReport, LimitScope, RemainingQuota,
    UpstreamReport, UsageHistory,
};
pub use routing::InvalidRules;
pub use shared::SharedTimer;

use routing::{GroupIndex, RouteTable};
use shared::SharedState;
use state::{AcquireRequest, AdmissionState, QueueStanding, WaitDeadline};

use crate::event::Events;
use crate::refusal::{Refusal, RefusalReason, WaitEstimate};
use crate::rules::{HealthScope, Rules, WaitMode};

/// The door to one API. Clones are the same door.
///
/// ```
/// use std::sync::Arc;
/// use outflow::{Answer, Ask, Events, Rules, SystemClock, Upstream};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let rules = Rules::limited_to("10/s".parse()?);
/// let door = Upstream::new("github", rules, Arc::new(SystemClock::new()), Events::new())?;
///
/// let ask = Ask::new(door.route(&http::Method::GET, "/repos/rust-lang/rust"));
/// let mut permit = door.admit(ask).await?;
/// permit.sending();
/// // ... send it, by whatever means ...
/// let verdict = permit.settle(Answer::status(200));
/// assert!(!verdict.is_worth_a_retry());
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Upstream {
    door: Arc<SharedState>,
}

impl Upstream {
    /// Opens a door that keeps to these rules.
    ///
    /// # Errors
    /// If the rules contradict each other; the error says how.
    pub fn new(
        name: &str,
        rules: Rules,
        timer: SharedTimer,
        events: Events,
    ) -> Result<Self, InvalidRules> {
        let known = RouteTable::new(&rules, GroupIndex::first(&rules))?;
        let gate = AdmissionState::new(&routing::groups(&rules), &rules, timer.moment());
        Ok(Self {
            door: SharedState::new(SmolStr::new(name), (known, gate), timer, events),
        })
    }

    /// Keeps to other rules from now on, in one step: no call sees half of them. Everything that was
    /// used stays used, the state of health stays, whoever waits goes on waiting under the new rules,
    /// and what is in flight is settled under them. A limit that grew lets calls go at once.
    ///
    /// A limit is the same if its window is: it keeps what counts against it. One that is new begins
    /// with what the others know of its window, so no change ever makes room that was not there. A
    /// group keeps what it used under its name, an alias, or another name with the same limits; what
    /// a group that is gone had used counts in the one that takes its calls. Whether groups fall ill
    /// together ([`HealthScope`](crate::HealthScope)) stays as it is.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use outflow::{Ask, Events, Rules, SystemClock, Upstream};
    ///
    /// let rules = |rate: &str| Ok::<_, outflow::core::InvalidRate>(Rules::limited_to(rate.parse()?));
    /// let door = Upstream::new("github", rules("1/h")?, Arc::new(SystemClock::new()), Events::new())?;
    /// let ask = Ask::new(door.route(&http::Method::GET, "/"));
    /// let first = door.try_admit(ask)?;
    /// assert!(door.try_admit(ask).is_err());
    /// door.reconfigure(&rules("2/h")?)?;
    /// let second = door.try_admit(ask)?;
    /// assert!(door.try_admit(ask).is_err(), "two in all, not two more");
    /// # drop((first, second));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If the rules contradict each other; nothing was changed then.
    pub fn reconfigure(&self, rules: &Rules) -> Result<(), InvalidRules> {
        routing::check(rules)?;
        self.door.reconfigure(rules);
        Ok(())
    }

    /// The API's name.
    pub fn name(&self) -> &SmolStr {
        &self.door.name
    }

    /// Which group a call is of, and what it costs.
    pub fn route(&self, method: &Method, path: &str) -> Target {
        self.door.known.load().route(method, path)
    }

    /// The group of this name or alias.
    pub fn group(&self, name: &str) -> Option<Target> {
        self.door.known.load().group(name)
    }

    /// The name of a target's group.
    pub fn group_name(&self, target: Target) -> SmolStr {
        self.door.known.load().group_name(target)
    }

    /// Asks for leave to send one call, and waits for it as the rules and the caller allow. Nothing
    /// happens before the future is first polled, and dropping it gives everything back.
    #[inline]
    pub fn admit(&self, ask: AcquireOptions) -> Acquire {
        Acquire::new(Arc::clone(&self.door), self.caller(ask))
    }

    /// The same without waiting.
    ///
    /// # Errors
    /// If the call cannot go now; the refusal says why and when.
    pub fn try_acquire(&self, ask: AcquireOptions) -> Result<Permit, Refusal> {
        let admit = self.admit(ask.mode(WaitMode::Reject));
        let mut context = Context::from_waker(Waker::noop());
        match pin!(admit).poll(&mut context) {
            Poll::Ready(answer) => answer,
            Poll::Pending => Err(Refusal {
                cause: RefusalReason::QueueFull,
                retry_after: None,
            }),
        }
    }

    /// Whether such a call could go now, and otherwise when, those who wait already included. Takes
    /// nothing and promises nothing: somebody else may be faster.
    pub fn check(&self, ask: AcquireOptions) -> Decision {
        let caller = self.caller(ask);
        self.door.with(|gate, now| gate.check(caller, now))
    }

    /// What such a call would wait for, how many are before it and when its turn would come; `None`
    /// if it could go now. As with [`check`](Self::check), nothing is taken and nothing promised.
    pub fn explain(&self, ask: AcquireOptions) -> Option<WaitEstimate> {
        let caller = self.caller(ask);
        self.door.with(|gate, now| gate.estimate_wait(caller, now))
    }

    /// The time by which deadlines are meant.
    pub fn now(&self) -> Nanos {
        self.door.now()
    }

    /// The clock behind it.
    pub fn timer(&self) -> &SharedTimer {
        &self.door.timer
    }

    /// Where it tells what happens.
    pub fn events(&self) -> &Events {
        &self.door.events
    }

    /// The state that a call of this target meets.
    pub fn state(&self, target: Target) -> HealthState {
        let lane = self.door.known.load().lane(target);
        self.door.with(|gate, _| gate.state(lane))
    }

    /// How the fullest of the limits of a target stands; nothing if it has no limits.
    pub fn remaining(&self, target: Target) -> Option<RemainingQuota> {
        let lane = self.door.known.load().lane(target);
        self.door.with(|gate, now| gate.remaining(lane, now))
    }

    /// The limits that are in effect for a target, those of the whole API first: for whoever shares them
    /// with other machines.
    pub fn effective_limits(&self, target: Target) -> Vec<EffectiveLimit> {
        let lane = self.door.known.load().lane(target);
        self.door.with(|gate, now| gate.ceilings(lane, now))
    }

    /// Says which part of the calls that use these limits passes this door, where the rest passes doors of
    /// other machines: a refusal is then judged by what all of them sent. It is believed for ten seconds.
    pub fn set_fleet_share(&self, part: FleetShare) {
        self.door.with(|gate, now| gate.sees(part, now));
    }

    /// Holds the API, or one group with a health of its own, in a state until it is released.
    pub fn force_health(&self, group: Option<Target>, hold: HealthOverride) {
        let lane = group.map(|target| self.door.known.load().lane(target));
        self.door.with(|gate, now| gate.force(lane, hold, now));
    }

    /// Lets go of what was held.
    pub fn release_health(&self, group: Option<Target>) {
        let lane = group.map(|target| self.door.known.load().lane(target));
        self.door.with(|gate, now| gate.release(lane, now));
    }

    /// Everything that can be told about it now.
    pub fn report(&self) -> UpstreamReport {
        self.door.with(AdmissionState::report)
    }

    /// Looks at how full the limits are, tells alerts and gives unused memory back. Housekeeping:
    /// once a second is a good rhythm, and no decision depends on it.
    pub fn prune(&self) {
        self.door.with(AdmissionState::tidy);
    }

    /// What those who wait and those in flight take up, in bytes on the heap, beside the meters, which
    /// tell of themselves in the report.
    pub fn memory_bytes(&self) -> usize {
        self.door.with(|gate, _| gate.memory())
    }

    /// Lets nobody in any more; those who wait are refused and those in flight go on.
    pub fn close(&self) {
        self.door.with(AdmissionState::close);
    }

    /// The same, for an API that the configuration no longer knows.
    pub(crate) fn remove(&self) {
        self.door.with(AdmissionState::remove);
    }

    /// Lets callers in again, if the API had only been removed.
    pub(crate) fn restore(&self) {
        self.door.with(|gate, _| gate.restore());
    }

    /// Whether its groups fall ill together.
    pub(crate) fn health_scope(&self) -> HealthScope {
        self.door.with(|gate, _| gate.health_scope())
    }

    /// Looks whether rules fit together.
    pub(crate) fn check_rules(rules: &Rules) -> Result<(), InvalidRules> {
        routing::check(rules)
    }

    /// True if no call is in flight.
    pub fn is_idle(&self) -> bool {
        self.door.with(|gate, _| gate.is_idle())
    }

    #[inline]
    fn caller(&self, ask: AcquireOptions) -> AcquireRequest {
        let known = self.door.known.load();
        AcquireRequest {
            lane: known.lane(ask.target),
            cost: ask.target.cost,
            class: ask.priority,
            term: ask
                .deadline
                .map_or(WaitDeadline::Within(known.max_wait), WaitDeadline::By),
            mode: ask.mode.unwrap_or(known.mode),
            standing: ask.standing,
        }
    }
}

impl fmt::Debug for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Upstream")
            .field("name", &self.door.name)
            .finish_non_exhaustive()
    }
}

/// What a call is: its group and its cost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Target {
    lane: u32,
    cost: Cost,
}

impl Target {
    /// The same call at another cost.
    #[must_use]
    pub const fn costing(mut self, cost: Cost) -> Self {
        self.cost = cost;
        self
    }

    /// What it costs.
    pub const fn cost(self) -> Cost {
        self.cost
    }
}

/// What a caller wants: a call, and how long it is ready to wait.
#[derive(Clone, Copy, Debug)]
pub struct AcquireOptions {
    target: Target,
    priority: Priority,
    deadline: Option<Nanos>,
    mode: Option<WaitMode>,
    standing: QueueStanding,
}

impl AcquireOptions {
    /// Leave for this call, on the usual terms.
    pub const fn new(target: Target) -> Self {
        Self {
            target,
            priority: Priority::Normal,
            deadline: None,
            mode: None,
            standing: QueueStanding::New,
        }
    }

    /// The same before or after others of its group.
    #[must_use]
    pub const fn priority(mut self, priority: Priority) -> Self {
        self.priority = priority;
        self
    }

    /// The same, to have gone by this instant.
    #[must_use]
    pub const fn deadline(mut self, deadline: Nanos) -> Self {
        self.deadline = Some(deadline);
        self
    }

    /// The same, waiting or not, whatever the rules say.
    #[must_use]
    pub const fn mode(mut self, mode: WaitMode) -> Self {
        self.mode = Some(mode);
        self
    }

    /// The same by one who had its turn and was sent under a limit that was too high: it stands before
    /// all who have not had theirs.
    #[must_use]
    pub(crate) const fn returning(mut self) -> Self {
        self.standing = QueueStanding::Returning;
        self
    }
}
