//! Time that limits give a workload, as the engine spends it.
//!
//! A lower bound counts whole windows of each limit alone. Here several limits of one owner apply together, starts
//! are spread over a second, an API counts a call until after its response, and the last call takes its time. So the
//! result is what a run takes while limits bind, and a dry run and every ETA use it.

mod limit_chain;

use std::collections::BTreeMap;
use std::time::Duration;

use outflow::core::{Cost, Decision, HealthState, Limit, Nanos, Rate};
use outflow::{DEFAULT_GROUP, LoweredBy, LoweredLimit, Outflow, WaitEstimate, WaitReason};
use outflow_store::Name;

use super::lower_bound::group_limits;
use super::throughput::{MAX_SPAN, Throughput, USUAL_SPAN};
use super::workload::{WorkAmount, Workload};
use crate::engine::EngineContext;
use crate::settings::EngineSettings;
use crate::submit::lane::Lane;
use limit_chain::LimitChain;

/// Time that limits give the remaining work.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct LimitTime {
    /// Time until the last call ends; zero without limits.
    pub(super) span: Duration,
    /// Longest window of all limits whose rhythm a measured throughput has.
    pub(super) window: Duration,
}

impl LimitTime {
    /// Returns true if a throughput was measured for long enough to say more than the limits: the first calls start
    /// slowly, because a limit counts them until after their responses.
    pub(super) fn trusts(self, measured: &Throughput) -> bool {
        self.span.is_zero() || measured.span >= TRUSTED_SPAN
    }

    /// Returns the span in which a throughput is measured: it has the rhythm of the windows.
    pub(super) fn measured_span(self) -> Duration {
        (self.window * 3).clamp(USUAL_SPAN, MAX_SPAN)
    }

    /// Returns true if limits explain the measured throughput: the quota of a window starts at its begin, so that a
    /// span may have one window more than its ends show, and the last window ends early.
    pub(super) fn explains(self, measured: &Throughput, remaining: u64) -> bool {
        let active = measured.span.saturating_sub(measured.idle);
        let slowest = measured.scale(active, remaining).saturating_sub(self.window);
        let fastest = measured.scale(active.saturating_sub(self.window), remaining);
        !self.span.is_zero() && slowest.min(fastest) <= self.span
    }
}

/// Owner of limits that apply together.
enum LimitOwner {
    /// A lane, for limits of its group or of its whole API.
    Lane(Name),
    Tenant(Name),
    AllTenants,
}

/// Limits of one owner, with the work that they count.
struct OwnedLimits {
    owner: LimitOwner,
    chain: LimitChain,
}

impl Workload {
    /// Returns the time until the last call ends, if limits bind, all of them are unused and a call takes this long:
    /// the promise of a dry run.
    pub fn expected_time(&self, client: &Outflow, settings: &EngineSettings, latency: Duration) -> Duration {
        let owned = self.owned_limits(client, settings, latency);
        let spans = owned.iter().map(|limits| limits.chain.span_from_start());
        spans.max().unwrap_or_default().saturating_add(latency)
    }

    fn owned_limits(&self, client: &Outflow, settings: &EngineSettings, latency: Duration) -> Vec<OwnedLimits> {
        let mut all = self.lane_limits(client, latency);
        for (name, own) in self.tenants() {
            if let Some(limit) = settings.tenant_limit(name) {
                let chain = LimitChain::new([&limit], own.all, latency);
                let owner = LimitOwner::Tenant(name.clone());
                all.push(OwnedLimits { owner, chain });
            }
        }
        if let Ok(global) = Rate::per_second(settings.global_rate) {
            let chain = LimitChain::new([&Limit::sliding(global)], self.total(), Duration::ZERO);
            let owner = LimitOwner::AllTenants;
            all.push(OwnedLimits { owner, chain });
        }
        all
    }

    /// Returns the limits of groups, and of whole APIs.
    fn lane_limits(&self, client: &Outflow, latency: Duration) -> Vec<OwnedLimits> {
        let (mut all, mut apis) = (Vec::new(), BTreeMap::<String, (Name, WorkAmount)>::new());
        for (lane, amount) in self.amounts() {
            let Lane::Api { api, group } = Lane::from_name(lane) else {
                continue;
            };
            let Some(known) = client.api(&api) else {
                continue;
            };
            let group = group.as_deref().unwrap_or(DEFAULT_GROUP);
            let chain = LimitChain::new(group_limits(&known, group), *amount, latency);
            let owner = LimitOwner::Lane(lane.clone());
            all.push(OwnedLimits { owner, chain });
            let sum = apis.entry(api).or_insert_with(|| (lane.clone(), WorkAmount::default()));
            sum.1.add(*amount);
        }
        for (api, (lane, amount)) in apis {
            let known = client.api(&api);
            let limits = known.iter().flat_map(|known| &known.rules.limits);
            let chain = LimitChain::new(limits, amount, latency);
            let owner = LimitOwner::Lane(lane);
            all.push(OwnedLimits { owner, chain });
        }
        all
    }
}

/// Returns true if the group of a lane has limits, in addition to those of its API.
pub(super) fn has_own_limits(client: &Outflow, lane: &Name) -> bool {
    let Lane::Api {
        api,
        group: Some(group),
    } = Lane::from_name(lane)
    else {
        return false;
    };
    let known = client.api(&api);
    known.is_some_and(|known| group_limits(&known, &group).next().is_some())
}

impl<S> EngineContext<S> {
    /// Returns the time until the last call of this work ends, if limits bind and a call takes this long; nothing
    /// if an API is paused. Without any limit it is zero.
    pub(super) fn remaining_time(&self, workload: &Workload, latency: Duration) -> Option<LimitTime> {
        let settings = self.settings.load();
        let mut longest = LimitTime::default();
        let mut first_waits = BTreeMap::new();
        for lane in workload.lanes() {
            let first = self.first_wait(lane)?;
            longest.span = longest.span.max(first);
            first_waits.insert(lane.clone(), first);
        }
        for OwnedLimits { owner, chain } in workload.owned_limits(&self.client, &settings, latency) {
            let first = match &owner {
                LimitOwner::Lane(lane) => first_waits.get(lane).copied(),
                LimitOwner::Tenant(_) | LimitOwner::AllTenants => None,
            };
            let wait = |limit: &Limit, units: u64| match &owner {
                LimitOwner::Lane(lane) => self.limit_wait(lane, limit, units),
                LimitOwner::Tenant(name) => {
                    let rate = settings.rule(name).rate;
                    self.start_limits.tenants.first_wait(name, rate, Cost::new(units))
                }
                LimitOwner::AllTenants => None,
            };
            longest.span = longest.span.max(chain.span_after(first.unwrap_or_default(), wait));
            longest.window = longest.window.max(chain.longest_window(MAX_SPAN));
        }
        if let Some(latest) = workload.latest() {
            longest.span = longest.span.max(latest.since(self.clock.wall()));
        }
        if !longest.span.is_zero() {
            longest.span = longest.span.saturating_add(latency);
        }
        Some(longest)
    }

    /// Returns the wait of a lane's next call; nothing if its API is paused or unknown.
    fn first_wait(&self, lane: &Name) -> Option<Duration> {
        let lane = Lane::from_name(lane);
        if matches!(lane, Lane::Handler(_)) {
            return Some(Duration::ZERO);
        }
        let (upstream, target) = lane.upstream(&self.client)?;
        match upstream.check(target) {
            Decision::WaitUntil(at) => {
                // In between, the instant may have come.
                let Some(WaitEstimate { reason, .. }) = upstream.explain(target) else {
                    return Some(Duration::ZERO);
                };
                match &reason {
                    // Calls in flight and probes end at an unknown instant, but soon; another state stays.
                    WaitReason::State(cause) if at == Nanos::MAX && cause.state != HealthState::HalfOpen => None,
                    _ if at == Nanos::MAX => Some(recovery_cost(&reason)),
                    _ => Some(at.since(upstream.now()).saturating_add(recovery_cost(&reason))),
                }
            }
            Decision::Allow(()) | Decision::Never => Some(Duration::ZERO),
        }
    }

    /// Returns the wait for units of one limit of a lane, if it ever allows so many at once.
    fn limit_wait(&self, lane: &Name, limit: &Limit, units: u64) -> Option<Duration> {
        let (upstream, target) = Lane::from_name(lane).upstream(&self.client)?;
        match upstream.check_limit(target, limit, units)? {
            Decision::WaitUntil(at) => Some(at.since(upstream.now())),
            Decision::Allow(()) => Some(Duration::ZERO),
            Decision::Never => None,
        }
    }
}

/// Returns the time that a recovery costs in addition to the wait for it.
fn recovery_cost(reason: &WaitReason) -> Duration {
    match reason {
        WaitReason::State(_) => PROBES_AND_RAMP,
        WaitReason::Limit {
            lowered:
                Some(LoweredLimit {
                    effective,
                    configured,
                    by: LoweredBy::Ramp,
                    back_in: Some(back_in),
                    ..
                }),
            ..
        } => {
            // The rate grows evenly to the configured one.
            let parts = |rate: &Rate, other: &Rate| u128::from(rate.quantity()) * other.per().as_nanos();
            let (now, full) = (parts(effective, configured), parts(configured, effective));
            let lost = back_in.as_nanos().saturating_mul(full.saturating_sub(now)) / full.saturating_mul(2).max(1);
            Duration::from_nanos(u64::try_from(lost).unwrap_or(u64::MAX))
        }
        _ => Duration::ZERO,
    }
}

/// Three probes of a third of a second, one after another, and the ramp from half of the rate in ten seconds.
const PROBES_AND_RAMP: Duration = Duration::from_secs(4);

/// Long enough for some ends of a slow API.
const TRUSTED_SPAN: Duration = Duration::from_secs(50);
