//! HTTP/2 connections that end early, and the retries after them.

use std::time::Duration;

use bytes::Bytes;
use http::Method;
use outflow::core::{RetryBudgetSettings, Share};
use outflow::{Api, Outflow, Rules};
use outflow_mock::{Fault, MockApi, Script, ScriptMatch, ScriptedFault, Server, Tls};

use super::h2_frames::{
    CANCEL, INTERNAL_ERROR, NO_ERROR, REFUSED_STREAM, frame, going_away, head, reset, response, together,
};
use super::support::{cautious, scripted, trusting};

/// Starts a server that breaks the first calls like this, and an HTTP/2 client for it.
async fn broken(frames: Bytes, first: u64, adapt: impl FnOnce(&mut Api)) -> (MockApi, Server, Outflow) {
    let rule = ScriptMatch::always().first(first);
    let mock = scripted(Script::new().rule(rule, Fault::Bytes(frames)));
    let server = mock.listen_tls(Tls::Good).await.expect("a port");
    let client = trusting(&server, adapt);
    (mock, server, client)
}

/// Refuses the stream and every other on its connection.
fn refused() -> Bytes {
    together(&[reset(REFUSED_STREAM), going_away(1, NO_ERROR)])
}

// The server leaves before it read any stream, or refuses the stream. It has done nothing, so that
// even a POST is retried on another connection.
#[tokio::test]
async fn a_stream_that_the_server_never_read_is_sent_again() {
    for frames in [going_away(0, NO_ERROR), going_away(0, INTERNAL_ERROR), refused()] {
        let (mock, _server, client) = broken(frames.clone(), 1, |_| {}).await;
        let call = client.post("strict", "/order").body("buy");
        let response = call.send().await.expect("the second time");
        assert_eq!(response.attempts(), 2, "{frames:?}");
        let audit = mock.audit();
        let used: Vec<_> = audit.arrivals().iter().map(|one| one.connection).collect();
        assert_eq!(used.len(), 2, "{frames:?}");
        assert_ne!(used[0], used[1], "{frames:?}");
        assert!(client.upstream("strict").expect("there").is_idle());
    }
}

// The server read the stream before it left, or reset it midway, or its response had begun. A POST
// may have been executed; a GET is harmless.
#[tokio::test]
async fn a_post_that_the_server_may_have_executed_is_not_sent_again() {
    for frames in [
        going_away(1, NO_ERROR),
        going_away(1, INTERNAL_ERROR),
        together(&[reset(CANCEL), going_away(1, NO_ERROR)]),
        together(&[reset(INTERNAL_ERROR), going_away(1, NO_ERROR)]),
        together(&[head(), refused()]),
        Bytes::new(),
    ] {
        for (method, attempts) in [(Method::POST, 1), (Method::GET, 3)] {
            let (mock, _server, client) = broken(frames.clone(), u64::MAX, |_| {}).await;
            let call = client.request(method.clone(), "strict", "/order");
            let error = call.body("buy").send().await.expect_err("none came");
            assert_eq!(error.attempts(), attempts, "{method} {frames:?}");
            let arrived = mock.audit().count();
            assert_eq!(u32::try_from(arrived), Ok(attempts), "{method} {frames:?}");
            assert!(client.upstream("strict").expect("there").is_idle());
        }
    }
}

// One call a minute: the server has seen one, executed or not.
#[tokio::test]
async fn a_refused_stream_counts_in_the_limit() {
    let (mock, _server, client) = broken(refused(), 1, |api| {
        api.rules = Rules::with_limit("1/min".parse().expect("valid"));
    })
    .await;
    let call = client.post("strict", "/").max_wait(Duration::from_secs(1));
    let error = call.send().await.expect_err("the minute is used up");
    assert_eq!((error.attempts(), mock.audit().count()), (1, 1));
    assert!(!error.is_connect(), "something was sent");
}

// A hundred refused calls earn twenty retries.
#[tokio::test]
async fn retries_do_not_multiply_refused_streams() {
    let (mock, _server, client) = broken(refused(), u64::MAX, |api| {
        // Only the budget bounds the attempts: no call waits for the end of a sleep.
        cautious(api);
        api.retry.budget = RetryBudgetSettings {
            share: Share::percent(20),
            per_second: 0,
            ..RetryBudgetSettings::default()
        };
    })
    .await;
    for _ in 0..100 {
        let error = client.post("strict", "/").body("x").send().await;
        assert!(error.expect_err("refused").attempts() <= 3);
    }
    let arrived = mock.audit().count();
    assert!((119..=120).contains(&arrived), "{arrived}");
}

// The server read the first stream and not the second before it left. The first gets its response
// on the old connection; the second is sent again on a new one.
#[tokio::test]
async fn a_leaving_server_finishes_the_streams_it_began() {
    let farewell = together(&[going_away(1, NO_ERROR), response()]);
    let script = Script::new()
        .rule(ScriptMatch::path("/first"), ScriptedFault::Late(Duration::from_mins(1)))
        .rule(ScriptMatch::path("/second").first(1), Fault::Held(farewell));
    let mock = scripted(script);
    let server = mock.listen_tls(Tls::Good).await.expect("a port");
    let client = trusting(&server, |_| {});
    let (first, second) = tokio::join!(client.post("strict", "/first").send(), async {
        while mock.audit().attempts("/first") == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        client.post("strict", "/second").body("x").send().await
    });
    assert_eq!(first.expect("begun").attempts(), 1);
    assert_eq!(second.expect("not begun").attempts(), 2);
    assert_eq!(mock.audit().attempts("/first"), 1);
}

// The server allows no more streams with its first response. Not even a POST is lost: it never left. It is the second
// attempt if the settings are noticed with the call, the first if they were noticed before.
#[tokio::test]
async fn a_call_leaves_a_connection_that_allows_no_streams() {
    let no_streams = frame(4, 0, 0, &[0, 3, 0, 0, 0, 0]);
    let farewell = together(&[no_streams, response()]);
    let script = Script::new().rule(ScriptMatch::path("/first"), Fault::Held(farewell));
    let mock = scripted(script);
    let server = mock.listen_tls(Tls::Good).await.expect("a port");
    let client = trusting(&server, |_| {});
    client.get("strict", "/first").send().await.expect("a response");
    let call = client
        .post("strict", "/second")
        .body("x")
        .timeout(Duration::from_secs(5));
    let attempts = call.send().await.expect("another connection").attempts();
    assert!((1..=2).contains(&attempts), "{attempts}");
    let audit = mock.audit();
    assert_eq!(audit.attempts("/second"), 1);
    let used: Vec<_> = audit.arrivals().iter().map(|one| one.connection).collect();
    assert_ne!(used[0], used[1]);
}
