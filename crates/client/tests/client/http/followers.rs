//! What becomes of calls that follow one whose patience or time is not theirs.
//!
//! One call at a time may be in flight and the test holds its permit, so that nobody can know how long
//! the wait at the door will be.

use std::time::Duration;

use outflow::core::{HealthConfig, HealthSettings};
use outflow::event::CacheLabel;
use outflow::{Api, CacheMode, Call, Outflow, Permit, RefusalReason, Response};
use outflow_mock::{Latency, MockApi, MockResponse, Script};
use tokio::time::Instant;

use super::support::{over_pipes, scripted};

const SECOND: Duration = Duration::from_secs(1);

/// Keeps answers, lets one call out at a time and has a minute for it.
fn one_at_a_time(api: &mut Api) {
    api.cache = CacheMode::Standard;
    api.retry.count = 0;
    api.timeouts.attempt = 60 * SECOND;
    api.timeouts.read = 60 * SECOND;
    let settings = HealthSettings {
        concurrency: 1,
        ..HealthSettings::ADAPTIVE
    };
    api.rules.health = HealthConfig::new(settings).expect("valid");
}

/// A server whose answers are good for a minute, and ten more where it fails.
fn lasting(body: &'static str) -> MockApi {
    let strict = scripted(Script::new());
    let answer = MockResponse::ok(body).header("cache-control", "max-age=60, stale-if-error=600");
    strict.answer("/**", answer);
    strict
}

/// The one permit there is.
async fn held(client: &Outflow) -> Permit {
    let door = client.upstream("strict").expect("there");
    let ask = door.group("default").expect("always there");
    door.acquire(ask).await.expect("the first")
}

/// A call that waits so long for its permit.
fn patient(client: &Outflow, secs: u64) -> Call {
    client
        .get("strict", "/a")
        .max_wait(Duration::from_secs(secs))
}

/// When a call ended, and with what.
async fn timed(call: Call) -> (Duration, Result<Response, outflow::Error>) {
    let begun = Instant::now();
    let ended = call.send().await;
    (begun.elapsed(), ended)
}

fn is_too_late(ended: &Result<Response, outflow::Error>) -> bool {
    let refusal = ended.as_ref().err().and_then(outflow::Error::refusal);
    refusal.is_some_and(|refusal| matches!(refusal.cause, RefusalReason::TooLate(_)))
}

// Five with thirty seconds of patience each. In turn they would take two and a half minutes.
#[tokio::test(start_paused = true)]
async fn followers_of_one_who_was_refused_do_not_wait_as_long_again() {
    let strict = lasting("1");
    let client = over_pipes(&strict, one_at_a_time);
    let _permit = held(&client).await;
    let call = || timed(patient(&client, 30));
    let ended = tokio::join!(call(), call(), call(), call(), call());
    for (took, ended) in [ended.0, ended.1, ended.2, ended.3, ended.4] {
        assert!(is_too_late(&ended), "{ended:?}");
        assert_eq!(took.as_secs(), 30, "{took:?}");
    }
    assert_eq!(strict.audit().count(), 0);
}

// The leader gives up after five seconds, the permit is free after twenty, the others have sixty.
#[tokio::test(start_paused = true)]
async fn the_more_patient_go_on_as_one_flight_when_their_leader_is_refused() {
    let strict = lasting("1");
    let client = over_pipes(&strict, one_at_a_time);
    let permit = held(&client).await;
    let freed = async {
        tokio::time::sleep(20 * SECOND).await;
        permit.refund();
    };
    let call = |secs| timed(patient(&client, secs));
    let (leader, ended, ()) = tokio::join!(
        call(5),
        async { tokio::join!(call(60), call(60), call(60)) },
        freed
    );
    assert!(
        is_too_late(&leader.1) && leader.0.as_secs() == 5,
        "{leader:?}"
    );
    let from = [ended.0, ended.1, ended.2].map(|(took, ended)| {
        assert_eq!(took.as_secs(), 20, "{took:?}");
        ended.expect("an answer").from_cache()
    });
    let shared = from
        .iter()
        .filter(|from| **from == Some(CacheLabel::Coalesced));
    assert_eq!(
        (shared.count(), from.contains(&None)),
        (2, true),
        "{from:?}"
    );
    assert_eq!(strict.audit().count(), 1);
}

// The leader would wait a minute at the door, its follower five seconds.
#[tokio::test(start_paused = true)]
async fn a_follower_is_no_more_patient_than_it_says() {
    let strict = lasting("1");
    let client = over_pipes(&strict, one_at_a_time);
    let permit = held(&client).await;
    let freed = async {
        tokio::time::sleep(20 * SECOND).await;
        permit.refund();
    };
    let call = |secs| timed(patient(&client, secs));
    let (leader, follower, ()) = tokio::join!(call(60), call(5), freed);
    assert!(is_too_late(&follower.1), "{follower:?}");
    assert_eq!(follower.0.as_secs(), 5);
    assert_eq!(leader.1.expect("an answer").from_cache(), None);
    assert_eq!(leader.0.as_secs(), 20);
}

// Twenty seconds on the way, and a follower that would wait five for a permit: it needs none.
#[tokio::test(start_paused = true)]
async fn patience_is_for_the_door_and_not_for_the_answer() {
    let strict = lasting("1");
    let way = Latency::Fixed(10 * SECOND);
    strict.delay(way, way);
    let client = over_pipes(&strict, one_at_a_time);
    let call = |secs| timed(patient(&client, secs));
    let (leader, follower) = tokio::join!(call(60), call(5));
    assert_eq!(leader.1.expect("an answer").from_cache(), None);
    let from = follower.1.expect("shared").from_cache();
    assert_eq!(from, Some(CacheLabel::Coalesced));
    assert_eq!(follower.0.as_secs(), 20);
    assert_eq!(strict.audit().count(), 1);
}

/// A client that has kept an answer which is stale by a minute, and a server that says another.
async fn outdated(strict: &MockApi) -> Outflow {
    let client = over_pipes(strict, one_at_a_time);
    client.get("strict", "/a").send().await.expect("kept");
    tokio::time::sleep(120 * SECOND).await;
    let new = MockResponse::ok("new").header("cache-control", "max-age=60");
    strict.answer("/**", new);
    client
}

async fn text(ended: Result<Response, outflow::Error>) -> (Option<CacheLabel>, String) {
    let answer = ended.expect("an answer");
    (answer.from_cache(), answer.text().await.expect("text"))
}

// The way takes four seconds and the leader has one: what it takes instead is its own affair.
#[tokio::test(start_paused = true)]
async fn one_whose_time_ran_out_keeps_its_stale_answer_to_itself() {
    let strict = lasting("old");
    let client = outdated(&strict).await;
    let way = Latency::Fixed(2 * SECOND);
    strict.delay(way, way);
    let hasty = client.get("strict", "/a").timeout(SECOND);
    let (leader, follower) = tokio::join!(hasty.send(), client.get("strict", "/a").send());
    let stale = (Some(CacheLabel::Stale), "old".to_owned());
    assert_eq!(text(leader).await, stale);
    assert_eq!(text(follower).await, (None, "new".to_owned()));
}

// The same at the door: it opens after twenty seconds, and the leader has one.
#[tokio::test(start_paused = true)]
async fn one_who_was_refused_keeps_its_stale_answer_to_itself() {
    let strict = lasting("old");
    let client = outdated(&strict).await;
    let permit = held(&client).await;
    let freed = async {
        tokio::time::sleep(20 * SECOND).await;
        permit.refund();
    };
    let (leader, follower, ()) = tokio::join!(
        patient(&client, 1).send(),
        patient(&client, 60).send(),
        freed
    );
    let stale = (Some(CacheLabel::Stale), "old".to_owned());
    assert_eq!(text(leader).await, stale);
    assert_eq!(text(follower).await, (None, "new".to_owned()));
}
