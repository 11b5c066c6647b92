//! Operator control of the machine, and its view from outside.

use outflow_core::{
    CircuitState, HealthDecision, HealthOverride, HealthSettings, HealthState, Outcome, Share, TransitionReason,
};

use super::api::{Api, SECOND, STATES, moved};

#[test]
fn an_operator_can_force_and_release_any_state() {
    for from in STATES {
        for (hold, after) in [
            (HealthOverride::Normal, HealthState::Normal),
            (HealthOverride::Throttle, HealthState::Throttle),
            (HealthOverride::Sleep, HealthState::HalfOpen),
            (HealthOverride::CacheOnly, HealthState::HalfOpen),
        ] {
            let mut api = Api::in_state(from);
            let forced = api.health.force(api.now, hold);
            assert_eq!((forced.from, forced.to), (from, hold.state()));
            assert_eq!((forced.reason, forced.until), (TransitionReason::Forced, None));
            // Longer than any wait that a server asked for on the way into `from`.
            api.pass(SECOND * 3_600);
            assert_eq!(api.wake(), None, "{hold:?} has no timer");
            let released = api.health.release(api.now).expect("was held");
            assert_eq!((released.to, released.reason), (after, TransitionReason::Released));
            assert_eq!(api.health.release(api.now), None, "only once");
        }
    }
}

// The ban of a minute outlives the operator's override.
#[test]
fn a_release_keeps_a_servers_wait() {
    let mut api = Api::asleep();
    let banned_until = api.health.next_wakeup();
    api.health.force(api.now, HealthOverride::CacheOnly);
    api.pass(SECOND);
    let released = api.health.release(api.now).expect("was held");
    assert_eq!((released.to, released.until), (HealthState::Sleep, banned_until));
}

// At the very instant at which a ban ends nothing is left of it to sleep through.
#[test]
fn a_release_when_the_servers_wait_ends_leads_to_probes() {
    let mut api = Api::asleep();
    let banned_until = api.health.next_wakeup().expect("a timer");
    api.health.force(api.now, HealthOverride::Sleep);
    api.now = banned_until;
    let released = api.health.release(api.now).expect("was held");
    assert_eq!((released.to, released.until), (HealthState::HalfOpen, None));
}

#[test]
fn the_circuit_is_a_view_of_the_state() {
    let views = STATES.map(|state| Api::in_state(state).health.circuit());
    assert_eq!(
        views,
        [
            CircuitState::Closed,
            CircuitState::Closed,
            CircuitState::Open,
            CircuitState::HalfOpen,
            CircuitState::Open
        ]
    );
    let names = views.map(CircuitState::name);
    assert_eq!(names, ["CLOSED", "CLOSED", "OPEN", "HALF_OPEN", "OPEN"]);
}

#[test]
fn a_stop_blocks_all_calls_and_names_its_end() {
    for state in [HealthState::Sleep, HealthState::CacheOnly] {
        let mut api = Api::in_state(state);
        let until = api.health.next_wakeup();
        assert!(until.is_some_and(|until| until > api.now));
        assert_eq!(api.health.admission(api.now), HealthDecision::Blocked { state, until });
    }
}

// Twenty failed recoveries are four times the number that leads the default machine to `CacheOnly`.
#[test]
fn a_breaker_never_enters_cache_only() {
    let mut api = Api::new(&HealthSettings::BREAKER);
    api.calls(5, Outcome::SERVER_FAILED);
    for _ in 0..20 {
        api.wake_when_due();
        let failed = moved(api.call(Outcome::SERVER_FAILED));
        assert_eq!(failed, Some((HealthState::Sleep, TransitionReason::ProbeFailed)));
    }
}

// Five failures in a row, or half of the calls with never two in a row; then three trials.
#[test]
fn a_breaker_has_three_states_and_its_own_thresholds() {
    let breaker = || Api::new(&HealthSettings::BREAKER);

    let mut api = breaker();
    assert_eq!(moved(api.calls(4, Outcome::SERVER_FAILED)), None);
    let opened = api.call(Outcome::NETWORK_FAILED).transition();
    let opened = opened.expect("five in a row");
    assert_eq!(
        (opened.to, opened.reason),
        (HealthState::Sleep, TransitionReason::Streak)
    );
    assert_eq!(opened.until, Some(api.now.saturating_add(SECOND * 30)));

    api.wake_when_due();
    let trials = [api.send(), api.send(), api.send()];
    assert!(matches!(
        api.health.admission(api.now),
        HealthDecision::Blocked {
            state: HealthState::HalfOpen,
            ..
        }
    ));
    let last = trials.map(|ticket| moved(api.answer(ticket, Outcome::SUCCESS)));
    assert_eq!(
        last,
        [None, None, Some((HealthState::Normal, TransitionReason::ProbesOk))]
    );

    let mut api = breaker();
    let alternating = (0..100).find_map(|call| {
        api.pass_millis(50);
        let outcome = [Outcome::SERVER_FAILED, Outcome::SUCCESS][call % 2];
        api.wake()
            .map(|t| (t.to, t.reason))
            .or_else(|| moved(api.call(outcome)))
    });
    assert_eq!(alternating, Some((HealthState::Sleep, TransitionReason::ErrorRatio)));
    assert_eq!(api.health.config().settings().p_throttle, Share::percent(50));
}
