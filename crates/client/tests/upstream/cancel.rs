//! Between the permit and the sending: what counts from where, and who is called back.

use http::HeaderMap;
use outflow::core::{HealthOverride, Priority};
use outflow::{AttemptResult, Group};

use crate::support::{CallRequest, Caller, World, by_sending, ms, rules, secs};

// One a second. Whoever sends 990 ms after it was let in counts from then, so the next has to wait for
// a second from there and not for the 10 ms that are left of the first.
#[test]
fn a_call_counts_from_its_sending_and_not_from_its_permit() {
    let world = World::new(rules(vec![by_sending("1/s")]));
    let mut first = world.caller(world.ask()).admitted();
    world.pass(ms(990));
    first.sending();
    let mut next = world.waiting(world.ask());
    world.pass(ms(999));
    assert!(!next.is_woken(), "two within a second");
    world.pass(ms(1));
    next.goes();
}

// One a second, and the first is sent three seconds late, when its entry has gone and another has the
// place: both count, so the third waits for a second from the later of the two.
#[test]
fn a_call_that_is_sent_after_its_entry_has_gone_still_counts() {
    let world = World::new(rules(vec![by_sending("1/s")]));
    let mut first = world.caller(world.ask()).admitted();
    world.pass(ms(2_500));
    world.caller(world.ask()).goes();
    world.pass(ms(500));
    first.sending();
    let mut next = world.waiting(world.ask());
    world.pass(ms(999));
    assert!(!next.is_woken(), "a call was forgotten");
    world.pass(secs(2));
    next.goes();
}

// Two have their permits and one of them is told to wait two seconds: the other is not to leave before,
// and gives its place back when it does not.
#[test]
fn a_permit_that_was_not_sent_ends_with_the_server_s_wish_to_wait() {
    let world = World::new(rules(vec![]));
    let mut first = world.caller(world.ask()).admitted();
    let second = world.caller(world.ask()).admitted();
    first.sending();
    assert!(!second.is_revoked());
    let mut headers = HeaderMap::new();
    headers.insert("retry-after", "2".parse().expect("a value"));
    first.settle(AttemptResult::response(429, &headers));
    assert!(second.is_revoked(), "it would be sent before its time");
    drop(second);
    let mut again = world.waiting(world.ask());
    world.pass(secs(4));
    let mut permit = again.admitted();
    assert!(!permit.is_revoked());
    permit.sending();
    world.door.force_health(None, HealthOverride::Sleep);
    assert!(!permit.is_revoked(), "what was sent cannot be called back");
}

// A low one that its own group holds up for a day does not use up the turn of the low one of another
// group: eight of a better class go before that, and then it goes.
#[test]
fn one_who_cannot_go_takes_no_turn_from_its_class() {
    let mut all = rules(vec![by_sending("1/s")]);
    let group = |name, limits| Group::new(name, limits);
    all.groups = vec![
        group("daily", vec![by_sending("1/d")]),
        group("lowly", vec![]),
        group("busy", vec![]),
    ];
    all.max_wait = secs(1_000_000);
    let world = World::silent(all);
    world.caller(CallRequest::new(world.group("daily"))).goes();
    let ask = |group, class| CallRequest::new(world.group(group)).priority(class);
    let _stuck = world.waiting(ask("daily", Priority::Low));
    let mut low = world.waiting(ask("lowly", Priority::Low));
    let high = || world.waiting(ask("busy", Priority::High));
    let mut highs: Vec<Caller> = (0..20).map(|_| high()).collect();
    for _ in 0..8 {
        world.pass(secs(1));
        let called = highs.iter().position(Caller::is_woken);
        highs.remove(called.expect("a high one's turn")).goes();
        highs.push(high());
    }
    world.pass(secs(1));
    low.goes();
}
