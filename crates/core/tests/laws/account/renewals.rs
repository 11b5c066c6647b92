//! Single laws of a renewal.

use std::time::Duration;

use outflow_core::{
    Account, CallArrivals, ClockPair, LeaseAnswer, LeaseRenewal, LeaseUnits, Limit, MAX_LIMITS, Nanos, QuotaWant,
    RenewalRefusal,
};

use crate::support::rate;

const SECOND: u64 = 1_000_000_000;

fn sliding(quantity: u64) -> [Limit; 1] {
    [Limit::sliding(rate(quantity, SECOND))]
}

/// Renewal with the terms of a host: 2 s of lease and 1 s of timeout.
fn renewal(holder: u64, number: u64, limits: &[Limit], calls: u64) -> LeaseRenewal<'_> {
    LeaseRenewal {
        holder,
        number,
        // Holders of these tests join in the order of their names.
        joined: holder,
        limits,
        arrived: &[],
        returned: LeaseUnits::ZERO,
        wanted: QuotaWant::calls(calls),
        ttl: Duration::from_secs(2),
        timeout: Duration::from_secs(1),
        facts_seen: 0,
        facts: None,
    }
}

fn renew(account: &mut Account, millis: u64, renewal: &LeaseRenewal<'_>) -> LeaseAnswer {
    account
        .renew(Nanos::from_millis(millis), renewal)
        .expect("a known holder")
}

#[test]
fn a_repeated_renewal_changes_nothing() {
    let limits = sliding(10);
    let mut account = Account::new(ClockPair::default());
    let first = renewal(1, 1, &limits, 4);
    let answer = renew(&mut account, 0, &first);
    let before = account.clone();
    assert_eq!(renew(&mut account, 0, &first), answer);
    assert_eq!(account, before);
    renew(&mut account, 1, &renewal(1, 2, &limits, 1));
    assert_eq!(
        account.renew(Nanos::from_millis(2), &first),
        Err(RenewalRefusal::OldNumber)
    );
    let stranger = renewal(9, 2, &limits, 1);
    assert_eq!(
        account.renew(Nanos::from_millis(2), &stranger),
        Err(RenewalRefusal::UnknownHolder)
    );
}

// Ten units: at each moment those held, those that arrived and those free are ten.
#[test]
fn no_unit_is_lost() {
    let limits = sliding(10);
    let mut account = Account::new(ClockPair::default());
    assert_eq!(renew(&mut account, 0, &renewal(1, 1, &limits, 7)).granted.calls, 7);
    let arrived = [CallArrivals {
        units: LeaseUnits::new(4, 4),
        ages: [Duration::from_millis(10); MAX_LIMITS],
    }];
    let report = LeaseRenewal {
        arrived: &arrived,
        returned: LeaseUnits::new(2, 2),
        ..renewal(1, 2, &limits, 0)
    };
    let usage = renew(&mut account, 20, &report).limits[0];
    assert_eq!((usage.arrived, usage.held), (4, 1));
    assert_eq!(
        renew(&mut account, 20, &renewal(2, 1, &limits, 10)).granted.calls,
        5,
        "the free ones"
    );
}

#[test]
fn a_lower_limit_holds_at_once_and_a_higher_one_when_the_last_old_holder_left() {
    let (old, new) = (sliding(40), sliding(50));
    let mut account = Account::new(ClockPair::default());
    let quantity = |answer: LeaseAnswer| answer.limits[0].rate.quantity();
    assert_eq!(quantity(renew(&mut account, 0, &renewal(1, 1, &new, 0))), 50);
    assert_eq!(quantity(renew(&mut account, 1, &renewal(2, 1, &old, 0))), 40);
    let all = renew(&mut account, 2, &renewal(1, 2, &new, 99));
    assert_eq!((all.granted.calls, quantity(all)), (40, 40));
    let leave = LeaseRenewal {
        ttl: Duration::ZERO,
        ..renewal(2, 2, &old, 0)
    };
    renew(&mut account, 3, &leave);
    let rest = renew(&mut account, 4, &renewal(1, 3, &new, 99));
    assert_eq!((rest.granted.calls, quantity(rest)), (10, 50));
}

// Lease 2 s, timeout 1 s, window 1 s: the units are back after 4 s, and one bucket.
#[test]
fn the_units_of_a_dead_holder_return_after_deadline_timeout_and_window() {
    let limits = sliding(10);
    let mut account = Account::new(ClockPair::default());
    renew(&mut account, 0, &renewal(1, 1, &limits, 10));
    let mut granted_at = |millis, holder| {
        renew(&mut account, millis, &renewal(holder, 1, &limits, 10))
            .granted
            .calls
    };
    assert_eq!(granted_at(2_999, 2), 0);
    assert_eq!(granted_at(3_999, 3), 0);
    assert_eq!(granted_at(4_020, 4), 10);
}

#[test]
fn a_call_above_the_limit_waits_for_ever() {
    let limits = sliding(10);
    let mut account = Account::new(ClockPair::default());
    let wanted = QuotaWant {
        units: LeaseUnits::new(1, 11),
        first: 11,
    };
    let heavy = LeaseRenewal {
        wanted,
        ..renewal(1, 1, &limits, 0)
    };
    assert_eq!(renew(&mut account, 0, &heavy).wait, Some(Duration::MAX));
}

#[test]
fn words_hold_the_whole_account() {
    let limits = [
        Limit::sliding(rate(10, SECOND)),
        Limit::aligned(rate(100, SECOND)).expect("even"),
        Limit::bucket(rate(10, SECOND), 5).expect("positive"),
    ];
    let mut account = Account::new(ClockPair::default());
    renew(&mut account, 0, &renewal(1, 1, &limits, 7));
    renew(&mut account, 5_000, &renewal(2, 1, &limits, 7));
    let words = account.to_words();
    assert_eq!(Account::from_words(&words), Ok(account));
    for end in 0..words.len() {
        assert!(Account::from_words(&words[..end]).is_err(), "{end} words");
    }
}
