use alloc::vec::Vec;

use super::*;

const NOW: Nanos = Nanos::ZERO;

fn serve(order: &mut FairQueue, turns: usize) -> Vec<Tenant> {
    (0..turns)
        .map_while(|_| {
            let tenant = order.next(NOW)?;
            order.charge(tenant, Cost::ONE)?;
            Some(tenant)
        })
        .collect()
}

fn joined(order: &mut FairQueue, weight: u32, priority: Priority) -> Tenant {
    let tenant = order.join(Weight::new(weight).expect("positive"), priority);
    order.enter(tenant);
    tenant
}

fn count(turns: &[Tenant], tenant: Tenant) -> usize {
    turns.iter().filter(|turn| **turn == tenant).count()
}

#[test]
fn weights_and_priorities_multiply() {
    let mut order = FairQueue::new();
    let low = joined(&mut order, 1, Priority::Low);
    let normal = joined(&mut order, 2, Priority::Normal);
    let high = joined(&mut order, 1, Priority::High);
    let turns = serve(&mut order, 250);
    assert_eq!([low, normal, high].map(|tenant| count(&turns, tenant)), [10, 80, 160]);
}

// A million services of one tenant would be a million services of credit for the other.
#[test]
fn unused_service_is_not_saved() {
    let mut order = FairQueue::new();
    let busy = joined(&mut order, 1, Priority::Normal);
    let idle = joined(&mut order, 1, Priority::Normal);
    order.set_idle(idle);
    serve(&mut order, 1_000_000);
    order.enter(idle);
    let turns = serve(&mut order, 100);
    assert_eq!((count(&turns, busy), count(&turns, idle)), (50, 50));
}

#[test]
fn going_idle_does_not_cancel_debt() {
    let mut order = FairQueue::new();
    let heavy = joined(&mut order, 1, Priority::Normal);
    let light = joined(&mut order, 1, Priority::Normal);
    order.charge(heavy, Cost::new(10));
    order.set_idle(heavy);
    order.enter(heavy);
    let turns = serve(&mut order, 10);
    assert_eq!(count(&turns, light), 10, "after {turns:?}");
}

#[test]
fn debts_end_when_all_tenants_are_idle() {
    let mut order = FairQueue::new();
    let heavy = joined(&mut order, 1, Priority::Normal);
    order.charge(heavy, Cost::new(1_000));
    order.set_idle(heavy);
    let light = joined(&mut order, 1, Priority::Normal);
    order.enter(heavy);
    let turns = serve(&mut order, 10);
    assert_eq!((count(&turns, heavy), count(&turns, light)), (5, 5));
}

#[test]
fn a_blocked_tenant_returns_at_its_instant() {
    let mut order = FairQueue::new();
    let tenant = joined(&mut order, 1, Priority::Normal);
    let until = Nanos::from_secs(2);
    order.block_until(tenant, until);
    order.block_until(tenant, Nanos::from_secs(1));
    assert_eq!(order.next_wakeup(), Some(until), "the later of the two");
    assert_eq!(order.next(Nanos::from_nanos(until.as_nanos() - 1)), None);
    assert_eq!(order.next(until), Some(tenant));
    assert_eq!(order.next_wakeup(), None);
}

#[test]
fn pause_block_and_work_are_independent() {
    let mut order = FairQueue::new();
    let tenant = joined(&mut order, 1, Priority::Normal);
    let until = Nanos::from_secs(1);
    order.block_until(tenant, until);
    order.pause(tenant);
    assert_eq!(order.eligibility(tenant), Some(Eligibility::Resume));
    assert_eq!((order.next(until), order.next_wakeup()), (None, None));
    order.resume(tenant);
    assert_eq!(order.eligibility(tenant), Some(Eligibility::Instant(until)));
    order.set_idle(tenant);
    assert_eq!((order.next(until), order.working()), (None, 0));
    order.enter(tenant);
    order.unblock(tenant);
    assert_eq!(order.eligibility(tenant), Some(Eligibility::Turn));
    assert_eq!((order.next(NOW), order.ready()), (Some(tenant), 1));
}

/// Serves, and keeps the charges of one tenant.
fn charged(order: &mut FairQueue, turns: usize, whose: Tenant) -> Vec<FairCharge> {
    (0..turns)
        .map_while(|_| {
            let next = order.next(NOW)?;
            order.charge(next, Cost::ONE)
        })
        .filter(|charge| charge.tenant() == whose)
        .collect()
}

fn take_back(order: &mut FairQueue, charges: impl IntoIterator<Item = FairCharge>) {
    for charge in charges {
        order.refund(charge);
    }
}

// Ten services are charged and refunded while the other tenant has eleven, then a wait in which it
// has 100. One of the ten is still due, and nothing for the time of waiting.
#[test]
fn a_refund_survives_a_block() {
    let mut order = FairQueue::new();
    let other = joined(&mut order, 1, Priority::Normal);
    let refused = joined(&mut order, 1, Priority::Normal);
    let mut charges = charged(&mut order, 21, refused);
    take_back(&mut order, charges.drain(..5));
    order.block_until(refused, Nanos::from_secs(1));
    take_back(&mut order, charges);
    assert_eq!(count(&serve(&mut order, 100), other), 100);
    order.unblock(refused);
    let turns = serve(&mut order, 21);
    assert_eq!((count(&turns, refused), count(&turns, other)), (11, 10));
}

// Every job of one tenant is refused ten services after it was sent, and it goes on. It gets two
// services instead of one, and the other keeps a third.
#[test]
fn a_tenant_with_only_refused_jobs_does_not_starve_the_other() {
    let mut order = FairQueue::new();
    let [_, other] = [(); 2].map(|()| joined(&mut order, 1, Priority::Normal));
    let mut flight = alloc::collections::VecDeque::new();
    let mut served = 0;
    for turn in 0..3_000 {
        if let Some((_, charge)) = flight.pop_front_if(|(sent, _)| *sent + 10 <= turn) {
            order.refund(charge);
        }
        let next = order.next(NOW).expect("both have work");
        let charge = order.charge(next, Cost::ONE).expect("present");
        if next == other {
            served += 1;
        } else {
            flight.push_back((turn, charge));
        }
    }
    assert!((990..=1_010).contains(&served), "{served} of 3,000");
}

// Refused and retried at once, for ever: the other tenant follows every second attempt.
#[test]
fn a_refund_restores_one_service() {
    let mut order = FairQueue::new();
    let [refused, _] = [(); 2].map(|()| joined(&mut order, 1, Priority::Normal));
    let mut turns = Vec::new();
    for _ in 0..6 {
        let next = order.next(NOW).expect("both have work");
        turns.push(next == refused);
        let charge = order.charge(next, Cost::ONE).expect("present");
        if next == refused {
            order.refund(charge);
        }
    }
    assert_eq!(turns, [true, true, false, true, true, false]);
}

#[test]
fn a_stale_handle_changes_nothing() {
    let mut order = FairQueue::new();
    let gone = joined(&mut order, 1, Priority::Normal);
    let charge = order.charge(gone, Cost::ONE).expect("present");
    order.leave(gone);
    let heir = joined(&mut order, 1, Priority::Normal);
    assert_eq!(heir.slot(), gone.slot(), "the place is used again");
    order.leave(gone);
    order.pause(gone);
    order.refund(charge);
    assert_eq!(order.charge(gone, Cost::ONE), None);
    assert_eq!((order.next(NOW), order.eligibility(gone)), (Some(heir), None));
}

// From 1 : 1 to 3 : 1 in mid-service; 40 more services must split 30 to 10.
#[test]
fn a_new_weight_holds_from_the_next_service() {
    let mut order = FairQueue::new();
    let grown = joined(&mut order, 1, Priority::Normal);
    let other = joined(&mut order, 1, Priority::Normal);
    serve(&mut order, 11);
    order.reweight(grown, Weight::new(3).expect("positive"), Priority::Normal);
    let turns = serve(&mut order, 40);
    assert!(count(&turns, grown).abs_diff(30) <= 1, "{turns:?}");
    assert!(count(&turns, other).abs_diff(10) <= 1, "{turns:?}");
}

// A refund due before a tenant went idle would put it before the other, which entered first. It
// goes idle from the order or from a block, and is refunded before or after.
#[test]
fn after_all_were_idle_tenants_start_equal() {
    for (blocked, late) in [(false, 0), (true, 0), (false, 1), (true, 10)] {
        let mut order = FairQueue::new();
        let other = joined(&mut order, 1, Priority::Normal);
        let refused = joined(&mut order, 1, Priority::Normal);
        let mut charges = charged(&mut order, 21, refused);
        let after = charges.split_off(10 - late);
        take_back(&mut order, charges);
        if blocked {
            order.block_until(refused, Nanos::from_secs(1));
        }
        order.set_idle(refused);
        order.set_idle(other);
        take_back(&mut order, after);
        order.unblock(refused);
        order.enter(other);
        order.enter(refused);
        let turns = serve(&mut order, 4);
        assert_eq!(turns, [other, refused, other, refused], "{blocked}, {late}");
    }
}

// One service is due; a thousand times the weight must not multiply it.
#[test]
fn a_new_weight_does_not_multiply_a_refund() {
    for blocked in [false, true] {
        let mut order = FairQueue::new();
        let other = joined(&mut order, 1, Priority::Normal);
        let refused = joined(&mut order, 1, Priority::Normal);
        let charges = charged(&mut order, 21, refused);
        if blocked {
            order.block_until(refused, Nanos::from_secs(1));
        }
        take_back(&mut order, charges);
        order.reweight(refused, Weight::new(1_000).expect("positive"), Priority::Normal);
        order.unblock(refused);
        let turns = serve(&mut order, 1_002);
        assert_eq!(count(&turns, other), 1, "parked: {blocked}");
    }
}

// A boost of 8 at a weight of 1 is 8 services at a weight of 4 too.
#[test]
fn a_new_weight_does_not_multiply_a_boost() {
    let mut order = FairQueue::with_max_boost(Cost::new(8));
    let almost_done = joined(&mut order, 1, Priority::Normal);
    joined(&mut order, 4, Priority::Normal);
    order.boost_by_progress(almost_done, u64::MAX, 0);
    let four = Weight::new(4).expect("positive");
    order.reweight(almost_done, four, Priority::Normal);
    let turns = serve(&mut order, 101);
    let ahead = turns.iter().take_while(|turn| **turn == almost_done);
    assert_eq!(ahead.count(), 8, "{turns:?}");
}

// Of 101 services of two equals, the first in the order gets one more by itself.
#[test]
fn a_boost_is_bounded_and_off_by_default() {
    for (max, ahead) in [(0, 1), (7, 7)] {
        let mut order = FairQueue::with_max_boost(Cost::new(max));
        let almost_done = joined(&mut order, 1, Priority::Normal);
        let newcomer = joined(&mut order, 1, Priority::Normal);
        order.boost_by_progress(almost_done, u64::MAX, 0);
        let turns = serve(&mut order, 101);
        let lead = count(&turns, almost_done) - count(&turns, newcomer);
        assert_eq!(lead, ahead, "with a favour of up to {max}");
    }
}

#[test]
fn a_free_job_is_charged_too() {
    let mut order = FairQueue::new();
    let free = joined(&mut order, 1, Priority::Normal);
    let other = joined(&mut order, 1, Priority::Normal);
    order.charge(free, Cost::ZERO);
    assert_eq!(order.next(NOW), Some(other));
}

#[test]
fn extreme_costs_and_weights_do_not_overflow() {
    let mut order = FairQueue::with_max_boost(Cost::new(u64::MAX));
    let tenant = joined(&mut order, u32::MAX, Priority::High);
    for _ in 0..100 {
        let charge = order.charge(tenant, Cost::new(u64::MAX)).expect("present");
        order.boost_by_progress(tenant, u64::MAX, u64::MAX);
        order.reweight(tenant, Weight::ONE, Priority::Low);
        order.refund(charge);
        order.charge(tenant, Cost::new(u64::MAX));
        order.reweight(tenant, Weight::new(u32::MAX).expect("positive"), Priority::High);
    }
    assert_eq!(order.next(Nanos::MAX), Some(tenant));
}
