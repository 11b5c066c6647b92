//! Followers of a leader with another wait limit or deadline.
//!
//! One call may be in flight and the test holds its permit, so that the wait's length is unknown.

use std::time::Duration;

use outflow::core::{HealthConfig, HealthSettings};
use outflow::event::CacheLabel;
use outflow::{Api, CacheMode, Call, Outflow, Permit, RefusalReason, Response};
use outflow_mock::{Latency, MockApi, MockResponse, Script};
use tokio::time::Instant;

use super::support::{over_pipes, scripted};

const SECOND: Duration = Duration::from_secs(1);

/// Caches responses, allows one call in flight and gives it a minute.
fn one_at_a_time(api: &mut Api) {
    api.cache = CacheMode::Standard;
    api.retry.count = 0;
    api.timeouts.attempt = 60 * SECOND;
    api.timeouts.read = 60 * SECOND;
    let settings = HealthSettings {
        concurrency: Some(1),
        ..HealthSettings::ADAPTIVE
    };
    api.rules.health = HealthConfig::new(settings).expect("valid");
}

/// Builds a server whose responses are fresh for a minute, and usable for ten more on errors.
fn caching_server(body: &'static str) -> MockApi {
    let mock = scripted(Script::new());
    let response = MockResponse::ok(body).header("cache-control", "max-age=60, stale-if-error=600");
    mock.answer("/**", response);
    mock
}

/// Acquires the only permit.
async fn hold_permit(client: &Outflow) -> Permit {
    let upstream = client.upstream("strict").expect("there");
    let target = upstream.group("default").expect("always there");
    upstream.acquire(target).await.expect("the first")
}

/// Builds a call that waits this long for its permit.
fn patient_call(client: &Outflow, secs: u64) -> Call {
    client.get("strict", "/a").max_wait(Duration::from_secs(secs))
}

/// Returns the call's duration and result.
async fn timed(call: Call) -> (Duration, Result<Response, outflow::Error>) {
    let begun = Instant::now();
    let ended = call.send().await;
    (begun.elapsed(), ended)
}

fn is_deadline_error(ended: &Result<Response, outflow::Error>) -> bool {
    let refusal = ended.as_ref().err().and_then(outflow::Error::refusal);
    refusal.is_some_and(|refusal| matches!(refusal.reason, RefusalReason::TooLate(_)))
}

// Five calls with a wait limit of thirty seconds each. In sequence they would take two and a half
// minutes.
#[tokio::test(start_paused = true)]
async fn followers_of_a_refused_leader_do_not_wait_again() {
    let mock = caching_server("1");
    let client = over_pipes(&mock, one_at_a_time);
    let _permit = hold_permit(&client).await;
    let call = || timed(patient_call(&client, 30));
    let ended = tokio::join!(call(), call(), call(), call(), call());
    for (took, ended) in [ended.0, ended.1, ended.2, ended.3, ended.4] {
        assert!(is_deadline_error(&ended), "{ended:?}");
        assert_eq!(took.as_secs(), 30, "{took:?}");
    }
    assert_eq!(mock.audit().count(), 0);
}

// The leader gives up after five seconds, the permit is free after twenty, the others have sixty.
#[tokio::test(start_paused = true)]
async fn patient_followers_share_one_flight_after_their_leader_is_refused() {
    let mock = caching_server("1");
    let client = over_pipes(&mock, one_at_a_time);
    let permit = hold_permit(&client).await;
    let freed = async {
        tokio::time::sleep(20 * SECOND).await;
        permit.refund();
    };
    let call = |secs| timed(patient_call(&client, secs));
    let (leader, ended, ()) = tokio::join!(call(5), async { tokio::join!(call(60), call(60), call(60)) }, freed);
    assert!(is_deadline_error(&leader.1) && leader.0.as_secs() == 5, "{leader:?}");
    let from = [ended.0, ended.1, ended.2].map(|(took, ended)| {
        assert_eq!(took.as_secs(), 20, "{took:?}");
        ended.expect("a response").from_cache()
    });
    let shared = from.iter().filter(|from| **from == Some(CacheLabel::Coalesced));
    assert_eq!((shared.count(), from.contains(&None)), (2, true), "{from:?}");
    assert_eq!(mock.audit().count(), 1);
}

// The leader would wait a minute for its permit, its follower five seconds.
#[tokio::test(start_paused = true)]
async fn a_follower_keeps_its_own_wait_limit() {
    let mock = caching_server("1");
    let client = over_pipes(&mock, one_at_a_time);
    let permit = hold_permit(&client).await;
    let freed = async {
        tokio::time::sleep(20 * SECOND).await;
        permit.refund();
    };
    let call = |secs| timed(patient_call(&client, secs));
    let (leader, follower, ()) = tokio::join!(call(60), call(5), freed);
    assert!(is_deadline_error(&follower.1), "{follower:?}");
    assert_eq!(follower.0.as_secs(), 5);
    assert_eq!(leader.1.expect("a response").from_cache(), None);
    assert_eq!(leader.0.as_secs(), 20);
}

// The response takes twenty seconds, and the follower would wait five for a permit: it needs none.
#[tokio::test(start_paused = true)]
async fn the_wait_limit_covers_the_permit_and_not_the_response() {
    let mock = caching_server("1");
    let latency = Latency::Fixed(10 * SECOND);
    mock.delay(latency, latency);
    let client = over_pipes(&mock, one_at_a_time);
    let call = |secs| timed(patient_call(&client, secs));
    let (leader, follower) = tokio::join!(call(60), call(5));
    assert_eq!(leader.1.expect("a response").from_cache(), None);
    let from = follower.1.expect("shared").from_cache();
    assert_eq!(from, Some(CacheLabel::Coalesced));
    assert_eq!(follower.0.as_secs(), 20);
    assert_eq!(mock.audit().count(), 1);
}

/// Builds a client with a response that is stale by a minute, and a server with a newer one.
async fn client_with_stale(mock: &MockApi) -> Outflow {
    let client = over_pipes(mock, one_at_a_time);
    client.get("strict", "/a").send().await.expect("kept");
    tokio::time::sleep(120 * SECOND).await;
    let new = MockResponse::ok("new").header("cache-control", "max-age=60");
    mock.answer("/**", new);
    client
}

async fn text(ended: Result<Response, outflow::Error>) -> (Option<CacheLabel>, String) {
    let response = ended.expect("a response");
    (response.from_cache(), response.text().await.expect("text"))
}

// The response takes four seconds and the leader has one: its stale response is its own.
#[tokio::test(start_paused = true)]
async fn a_leader_out_of_time_keeps_its_stale_response_to_itself() {
    let mock = caching_server("old");
    let client = client_with_stale(&mock).await;
    let latency = Latency::Fixed(2 * SECOND);
    mock.delay(latency, latency);
    let hasty = client.get("strict", "/a").timeout(SECOND);
    let (leader, follower) = tokio::join!(hasty.send(), client.get("strict", "/a").send());
    let stale = (Some(CacheLabel::Stale), "old".to_owned());
    assert_eq!(text(leader).await, stale);
    assert_eq!(text(follower).await, (None, "new".to_owned()));
}

// The permit is free after twenty seconds, and the leader waits one.
#[tokio::test(start_paused = true)]
async fn a_refused_leader_keeps_its_stale_response_to_itself() {
    let mock = caching_server("old");
    let client = client_with_stale(&mock).await;
    let permit = hold_permit(&client).await;
    let freed = async {
        tokio::time::sleep(20 * SECOND).await;
        permit.refund();
    };
    let (leader, follower, ()) = tokio::join!(patient_call(&client, 1).send(), patient_call(&client, 60).send(), freed);
    let stale = (Some(CacheLabel::Stale), "old".to_owned());
    assert_eq!(text(leader).await, stale);
    assert_eq!(text(follower).await, (None, "new".to_owned()));
}
