//! Calls dropped at every poll: the upstream loses nothing and forgets nothing.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use outflow::core::Nanos;
use outflow::event::{EventKind, StatusLabel};
use outflow::{Api, CacheMode, Outflow, Rules};
use outflow_mock::{Content, Latency, MockApi, MockResponse, Script, ScriptMatch};
use outflow_testkit::EventRecorder;

use super::support::{over_pipes, scripted};

/// Polls a future this many times and drops it; returns true if it finished.
async fn polled_then_dropped<F: Future>(polls: usize, work: F) -> bool {
    let (mut work, mut left) = (pin!(work), polls);
    poll_fn(|cx| {
        if left == 0 {
            return Poll::Ready(false);
        }
        left -= 1;
        work.as_mut().poll(cx).map(|_| true)
    })
    .await
}

/// Builds a server that is slow, fails once and redirects once, so that a call has many polls.
fn eventful() -> MockApi {
    let mock = scripted(Script::new().rule(ScriptMatch::path("/a").first(1), MockResponse::status(503)));
    mock.answer("/a", MockResponse::redirect(302, "/b"));
    mock.answer("/b", MockResponse::ok("{}").header("cache-control", "max-age=1"));
    let latency = Latency::Fixed(Duration::from_millis(20));
    mock.delay(latency, latency);
    mock
}

fn limited(api: &mut Api) {
    api.rules = Rules::with_limit("2/s".parse().expect("valid"));
    api.cache = CacheMode::Standard;
}

/// Counts admitted and finished permits in the events: settled or refunded ones equal the admitted
/// ones.
fn conserved(recorder: &EventRecorder) -> (usize, usize) {
    let count = |wanted: fn(&EventKind) -> bool| {
        let all = recorder.all();
        all.iter().filter(|event| wanted(&event.what)).count()
    };
    let out = count(|what| matches!(what, EventKind::Admitted { .. }));
    let back = count(|what| matches!(what, EventKind::Settled { .. } | EventKind::Refunded { .. }));
    (out, back)
}

async fn leaves_nothing_behind<F: Future>(client: &Outflow, polls: usize, work: F) -> bool {
    let recorder = EventRecorder::subscribed_to(client.events());
    let over = polled_then_dropped(polls, work).await;
    let upstream = client.upstream("strict").expect("there");
    assert!(upstream.is_idle(), "after {polls} polls a place is still held");
    let (out, back) = conserved(&recorder);
    assert_eq!(out, back, "after {polls} polls");
    let finished = recorder.finished();
    assert_eq!(finished.len(), polls.min(1), "after {polls} polls");
    // A caller that drops the body midway has had the response.
    let left = finished.iter().any(|call| call.status == StatusLabel::Cancelled);
    assert!(!(over && left), "after {polls} polls");
    assert_eq!(upstream.report().waiting, 0, "after {polls} polls a caller still waits");
    over
}

// A fresh client for each number of polls, until the call finishes before it is dropped.
#[tokio::test(start_paused = true)]
async fn a_call_may_be_dropped_at_every_poll() {
    for polls in 0..1_000 {
        let mock = eventful();
        let client = over_pipes(&mock, limited);
        let call = Box::pin(client.get("strict", "/a").send());
        if leaves_nothing_behind(&client, polls, call).await {
            assert!(polls > 5, "{polls} polls are no way to be dropped on");
            return;
        }
        // The next call finds a clean upstream: the limit holds and no caller is stuck.
        for _ in 0..3 {
            let next = client.get("strict", "/b?next").max_wait(Duration::from_secs(3));
            let next = next.cache(outflow::CacheDirective::Bypass).send().await;
            next.unwrap_or_else(|error| panic!("after {polls} polls: {error}"));
        }
        let most = mock.audit().most_in_any_window(Duration::from_secs(1));
        assert!(most <= 2, "after {polls} polls: {most} in a second");
    }
    panic!("the call never ended");
}

/// Sends a stream and reads one, piece by piece.
async fn flowing_both_ways(client: Outflow) {
    let body = Full::new(Bytes::from(vec![7; 300_000]));
    let call = client.post("strict", "/a").stream(body);
    let head = call.send_streaming().await;
    let mut body = head.expect("a head").stream();
    while let Some(Ok(_)) = body.chunk().await {}
}

// Five bytes at a tenth of a second each, behind an upload of several pieces.
#[tokio::test(start_paused = true)]
async fn streams_may_be_dropped_at_every_poll() {
    for polls in 0..1_000 {
        let drip = MockResponse::ok("").content(Content::Drip {
            bytes: "01234".into(),
            every: Duration::from_millis(100),
        });
        let mock = scripted(Script::new().rule(ScriptMatch::always(), drip));
        let client = over_pipes(&mock, limited);
        let work = Box::pin(flowing_both_ways(client.clone()));
        if leaves_nothing_behind(&client, polls, work).await {
            assert!(polls > 5, "{polls} polls are no way to be dropped on");
            return;
        }
    }
    panic!("the streams never ended");
}

// Sent attempts count: two calls were sent and dropped, so the third waits for their second to
// pass.
#[tokio::test(start_paused = true)]
async fn a_sent_attempt_counts_after_its_caller_left() {
    let mock = scripted(Script::new());
    let latency = Latency::Fixed(Duration::from_millis(100));
    mock.delay(latency, latency);
    let client = over_pipes(&mock, limited);
    for _ in 0..2 {
        let call = client.get("strict", "/").timeout(Duration::from_millis(150)).send();
        assert!(call.await.expect_err("given up").is_timeout());
    }
    client.get("strict", "/").send().await.expect("the third");
    let at: Vec<Nanos> = mock.audit().arrivals().iter().map(|one| one.at).collect();
    assert!(at[2].since(at[0]) >= Duration::from_secs(1), "{at:?}");
}
