//! HTTP/2 connections that end early, and what is sent again then.

use std::time::Duration;

use bytes::Bytes;
use http::Method;
use outflow::core::{RetryBudgetSettings, Share};
use outflow::{Api, Outflow, Rules};
use outflow_mock::{Fault, MockApi, Script, ScriptMatch, ScriptedFault, Server, Tls};

use super::h2_frames::{
    CANCEL, INTERNAL_ERROR, NO_ERROR, REFUSED_STREAM, answer, going_away, head, reset, together,
};
use super::support::{scripted, trusting};

/// A server that breaks the first so many calls like this, and a client that speaks HTTP/2 to it.
async fn broken(
    frames: Bytes,
    first: u64,
    adapt: impl FnOnce(&mut Api),
) -> (MockApi, Server, Outflow) {
    let rule = ScriptMatch::always().first(first);
    let strict = scripted(Script::new().rule(rule, Fault::Bytes(frames)));
    let server = strict.listen_tls(Tls::Good).await.expect("a port");
    let client = trusting(&server, adapt);
    (strict, server, client)
}

/// Refuses the stream, and takes no other on its connection.
fn refused() -> Bytes {
    together(&[reset(REFUSED_STREAM), going_away(1, NO_ERROR)])
}

// Before it has looked at any stream the server goes away, in peace or in trouble, or it refuses the
// one: it says that it has done nothing, so that even a POST is sent again, on another connection.
#[tokio::test]
async fn what_the_server_never_began_with_is_sent_again() {
    for frames in [
        going_away(0, NO_ERROR),
        going_away(0, INTERNAL_ERROR),
        refused(),
    ] {
        let (strict, _server, client) = broken(frames.clone(), 1, |_| {}).await;
        let call = client.post("strict", "/order").body("buy");
        let answer = call.send().await.expect("the second time");
        assert_eq!(answer.attempts(), 2, "{frames:?}");
        let audit = strict.audit();
        let used: Vec<_> = audit.arrivals().iter().map(|one| one.connection).collect();
        assert_eq!(used.len(), 2, "{frames:?}");
        assert_ne!(used[0], used[1], "{frames:?}");
        assert!(client.upstream("strict").expect("there").is_idle());
    }
}

// The server had looked at the stream when it went away, or it ended the stream in the middle of its
// work, or its answer had begun: a POST may have been carried out, a GET does no harm.
#[tokio::test]
async fn what_the_server_may_have_done_is_not_sent_again() {
    for frames in [
        going_away(1, NO_ERROR),
        going_away(1, INTERNAL_ERROR),
        together(&[reset(CANCEL), going_away(1, NO_ERROR)]),
        together(&[reset(INTERNAL_ERROR), going_away(1, NO_ERROR)]),
        together(&[head(), refused()]),
        Bytes::new(),
    ] {
        for (method, attempts) in [(Method::POST, 1), (Method::GET, 3)] {
            let (strict, _server, client) = broken(frames.clone(), u64::MAX, |_| {}).await;
            let call = client.request(method.clone(), "strict", "/order");
            let error = call.body("buy").send().await.expect_err("none came");
            assert_eq!(error.attempts(), attempts, "{method} {frames:?}");
            let arrived = strict.audit().count();
            assert_eq!(u32::try_from(arrived), Ok(attempts), "{method} {frames:?}");
            assert!(client.upstream("strict").expect("there").is_idle());
        }
    }
}

// One call a minute: the server has seen one, whatever it did with it.
#[tokio::test]
async fn what_the_server_refused_unread_counts_at_the_limit() {
    let (strict, _server, client) = broken(refused(), 1, |api| {
        api.rules = Rules::with_limit("1/min".parse().expect("valid"));
    })
    .await;
    let call = client.post("strict", "/").max_wait(Duration::from_secs(1));
    let error = call.send().await.expect_err("the minute is used up");
    assert_eq!((error.attempts(), strict.audit().count()), (1, 1));
    assert!(!error.is_connect(), "something was sent");
}

// A hundred calls that are all refused earn twenty repetitions.
#[tokio::test]
async fn a_storm_of_refused_streams_is_not_multiplied() {
    let (strict, _server, client) = broken(refused(), u64::MAX, |api| {
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
    let arrived = strict.audit().count();
    assert!((119..=120).contains(&arrived), "{arrived}");
}

// The server has looked at the first stream and not at the second when it goes away. The first gets
// its answer on the old connection and the second is sent again on a new one.
#[tokio::test]
async fn a_server_that_goes_away_finishes_what_it_began() {
    let farewell = together(&[going_away(1, NO_ERROR), answer()]);
    let script = Script::new()
        .rule(
            ScriptMatch::path("/first"),
            ScriptedFault::Late(Duration::from_mins(1)),
        )
        .rule(ScriptMatch::path("/second").first(1), Fault::Held(farewell));
    let strict = scripted(script);
    let server = strict.listen_tls(Tls::Good).await.expect("a port");
    let client = trusting(&server, |_| {});
    let (first, second) = tokio::join!(client.post("strict", "/first").send(), async {
        while strict.audit().attempts("/first") == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        client.post("strict", "/second").body("x").send().await
    });
    assert_eq!(first.expect("begun").attempts(), 1);
    assert_eq!(second.expect("not begun").attempts(), 2);
    assert_eq!(strict.audit().attempts("/first"), 1);
}
