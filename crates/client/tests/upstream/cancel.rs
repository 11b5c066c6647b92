//! Between permit and sending: the start of counting, and revoked permits.

use http::HeaderMap;
use outflow::core::{HealthOverride, Priority};
use outflow::{AttemptResult, Group};

use crate::support::{CallRequest, TestBed, TestCaller, by_sending, ms, rules, secs};

// One a second. A call sent 990 ms after its permit counts from then. The next waits a full second
// from there, not the 10 ms left of the first.
#[test]
fn a_call_counts_from_its_sending_and_not_from_its_permit() {
    let bed = TestBed::new(rules(vec![by_sending("1/s")]));
    let mut first = bed.caller(bed.options()).admitted();
    bed.pass(ms(990));
    first.sending();
    let mut next = bed.waiting(bed.options());
    bed.pass(ms(999));
    assert!(!next.is_woken(), "two within a second");
    bed.pass(ms(1));
    next.goes();
}

// One a second, and the first is sent three seconds late, after its entry expired and another took
// the quota. Both count, so the third waits a second from the later one.
#[test]
fn a_call_sent_after_its_entry_expired_still_counts() {
    let bed = TestBed::new(rules(vec![by_sending("1/s")]));
    let mut first = bed.caller(bed.options()).admitted();
    bed.pass(ms(2_500));
    bed.caller(bed.options()).goes();
    bed.pass(ms(500));
    first.sending();
    let mut next = bed.waiting(bed.options());
    bed.pass(ms(999));
    assert!(!next.is_woken(), "a call was forgotten");
    bed.pass(secs(2));
    next.goes();
}

// Two calls have permits and one gets a Retry-After of two seconds: the other must not be sent
// before, and refunds its permit.
#[test]
fn an_unsent_permit_is_revoked_by_a_retry_after() {
    let bed = TestBed::new(rules(vec![]));
    let mut first = bed.caller(bed.options()).admitted();
    let second = bed.caller(bed.options()).admitted();
    first.sending();
    assert!(!second.is_revoked());
    let mut headers = HeaderMap::new();
    headers.insert("retry-after", "2".parse().expect("a value"));
    first.settle(AttemptResult::response(429, &headers));
    assert!(second.is_revoked(), "it would be sent before its time");
    drop(second);
    let mut again = bed.waiting(bed.options());
    bed.pass(secs(4));
    let mut permit = again.admitted();
    assert!(!permit.is_revoked());
    permit.sending();
    bed.upstream.force_health(None, HealthOverride::Sleep);
    assert!(!permit.is_revoked(), "a sent permit cannot be revoked");
}

// A low call blocked for a day by its group does not use up the low share of another group. Eight
// better calls go first, and then the other group's call.
#[test]
fn a_blocked_call_takes_no_share_from_its_class() {
    let mut all = rules(vec![by_sending("1/s")]);
    let group = |name, limits| Group::new(name, limits);
    all.groups = vec![
        group("daily", vec![by_sending("1/d")]),
        group("lowly", vec![]),
        group("busy", vec![]),
    ];
    all.max_wait = secs(1_000_000);
    let bed = TestBed::silent(all);
    bed.caller(CallRequest::new(bed.group("daily"))).goes();
    let options = |group, class| CallRequest::new(bed.group(group)).priority(class);
    let _stuck = bed.waiting(options("daily", Priority::Low));
    let mut low = bed.waiting(options("lowly", Priority::Low));
    let high = || bed.waiting(options("busy", Priority::High));
    let mut highs: Vec<TestCaller> = (0..20).map(|_| high()).collect();
    for _ in 0..8 {
        bed.pass(secs(1));
        let called = highs.iter().position(TestCaller::is_woken);
        highs.remove(called.expect("a high one's turn")).goes();
        highs.push(high());
    }
    bed.pass(secs(1));
    low.goes();
}
