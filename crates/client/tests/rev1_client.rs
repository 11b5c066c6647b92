//! Attempts to break the client. Each test states the law that it believes in; a red one is a defect.
#![allow(
    dead_code,
    unreachable_pub,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "reproductions"
)]

#[path = "http/support.rs"]
mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use outflow::core::{Accounting, Effect, Limit};
use outflow::event::What;
use outflow::{Api, Connecting, Credential, Group, Outflow, Place, Route, Rules, Stream};
use outflow_testkit::VirtualTime;
use outflow_upstream::{Answer, Content, Latency, Refusal, Script, StrictApi, When};
use support::{Heard, eager, over_pipes, over_sockets, scripted};
use tokio::time::Instant;

const SECOND: Duration = Duration::from_secs(1);

/// Like `over_pipes`, with a time that each connection takes.
fn connecting_in(
    strict: &StrictApi,
    spans: Vec<Duration>,
    adapt: impl FnOnce(&mut Api),
) -> Outflow {
    let server = Arc::new(strict.in_memory());
    let mut api = eager(&server.url());
    adapt(&mut api);
    let nth = AtomicUsize::new(0);
    Outflow::builder()
        .api(api)
        .timer(Arc::new(VirtualTime::new()))
        .connector(Arc::new(move |_: &str, _: u16| -> Connecting {
            let n = nth.fetch_add(1, Ordering::Relaxed);
            let span = spans.get(n).copied().unwrap_or_default();
            let pipe: Box<dyn Stream> = Box::new(server.connect());
            Box::pin(async move {
                tokio::time::sleep(span).await;
                Ok(pipe)
            })
        }))
        .build()
        .expect("valid")
}

// A is admitted and still connecting (1 s) when B is told to wait 3 s. A must not be sent before.
#[tokio::test(start_paused = true)]
async fn rev1_nobody_is_sent_before_retry_after_not_even_who_was_connecting() {
    let strict =
        scripted(Script::new().rule(When::path("/b").first(1), Refusal::new(429, 3 * SECOND)));
    let client = connecting_in(&strict, vec![SECOND, Duration::ZERO], |api| {
        api.retry.count = 0;
    });
    let (a, b) = tokio::join!(client.get("strict", "/a").send(), async {
        tokio::time::sleep(Duration::from_millis(10)).await;
        client.get("strict", "/b").send().await
    });
    println!("{a:?} {b:?}");
    let early = strict.audit().sent_before_retry_after();
    assert!(early.is_empty(), "{early:?}");
}

// 1/s counted by sending. The first takes 950 ms to connect: it leaves 50 ms before the second.
#[tokio::test(start_paused = true)]
async fn rev1_counted_by_sending_counts_from_the_sending() {
    let strict = scripted(Script::new());
    let client = connecting_in(
        &strict,
        vec![Duration::from_millis(950), Duration::ZERO],
        |api| {
            api.rules.limits =
                vec![Limit::sliding("1/s".parse().unwrap()).counted(Accounting::Send)];
        },
    );
    let (_a, _b) = tokio::join!(
        client.get("strict", "/a").send(),
        client.get("strict", "/b").send()
    );
    assert_eq!(strict.audit().most_in_any_window(SECOND), 1);
}

// /free leads to /orders/1, whose group has one call a minute: the second must wait its turn.
#[tokio::test(start_paused = true)]
async fn rev1_a_redirected_call_counts_in_the_group_it_leads_to() {
    let strict = scripted(Script::new());
    strict.answer("/free", Answer::redirect(302, "/orders/1"));
    let client = over_pipes(&strict, |api| {
        api.rules.groups = vec![Group::new(
            "orders",
            vec![Limit::sliding("1/m".parse().unwrap())],
        )];
        api.rules.routes = vec![Route {
            methods: Vec::new(),
            pattern: "/orders/**".parse().unwrap(),
            group: "orders".into(),
            cost: None,
        }];
    });
    client.get("strict", "/free").send().await.expect("one");
    let _second = client.get("strict", "/free").send().await;
    assert_eq!(strict.audit().attempts("/orders/1"), 1, "one a minute");
}

// The base is /v1, and the redirect leads to /v10/orders: that is not `0/orders` below the base.
#[tokio::test(start_paused = true)]
async fn rev1_a_group_named_by_the_caller_stays_after_a_redirect() {
    let strict = scripted(Script::new());
    strict.answer("/free", Answer::redirect(302, "/other"));
    let client = over_pipes(&strict, |api| {
        api.rules.groups = vec![Group::new("orders", vec![])];
    });
    let heard = Heard::on(client.events());
    let call = client.get("strict", "/free").group("orders");
    call.send().await.expect("one");
    let finished = heard.finished();
    assert_eq!(finished[0].group, "orders");
}

// A key in the query is shown on every request to the API, after a redirect within it too.
#[tokio::test(start_paused = true)]
async fn rev1_a_key_in_the_query_follows_a_redirect_within_the_api() {
    let strict = scripted(Script::new());
    strict.answer("/old", Answer::redirect(302, "/new?page=2"));
    strict.answer("/new", Answer::echo());
    let client = over_pipes(&strict, |api| {
        api.credential = Some(Credential {
            secret: "KEY".to_owned().into(),
            place: Place::Query("api_key".into()),
        });
    });
    let seen = client
        .get("strict", "/old")
        .send()
        .await
        .expect("ok")
        .text()
        .await
        .expect("text");
    assert!(seen.contains("api_key=KEY"), "{seen}");
}

// Its own reader had no more time: nothing bad is said of the API.
#[tokio::test(start_paused = true)]
async fn rev1_a_readers_deadline_in_a_stream_blames_nobody() {
    let drip = Answer::ok("").content(Content::Drip {
        bytes: "0123456789".into(),
        every: SECOND,
    });
    let strict = scripted(Script::new().rule(When::always(), drip));
    let client = over_pipes(&strict, |_| {});
    let head = client
        .get("strict", "/")
        .within(2 * SECOND + SECOND / 2)
        .send_streaming()
        .await;
    head.expect("a head")
        .bytes()
        .await
        .expect_err("no more time");
    let report = client.upstream("strict").unwrap().report();
    let counts = report.health[0].snapshot.counts;
    assert_eq!(counts.network, 0, "{counts:?}");
}

// A 500 with a page of 100 KiB, read as a stream: the page is there, or an error says that it is not.
#[tokio::test(start_paused = true)]
async fn rev1_a_large_error_page_is_not_silently_empty() {
    let page = Answer::status(500).content(Content::Zeros(100 * 1024));
    let strict = scripted(Script::new().rule(When::always(), page));
    let client = over_pipes(&strict, |api| api.retry.count = 0);
    let whole = client
        .get("strict", "/")
        .send()
        .await
        .expect("500")
        .bytes()
        .await
        .expect("page");
    assert_eq!(whole.len(), 100 * 1024);
    let streamed = client
        .get("strict", "/")
        .send_streaming()
        .await
        .expect("500");
    let told = streamed.headers().get("content-length").cloned();
    match streamed.bytes().await {
        Ok(bytes) => assert_eq!(bytes.len(), 100 * 1024, "content-length said {told:?}"),
        Err(error) => println!("fine: {error}"),
    }
}

// "No timeout" is usually written as the longest duration there is.
#[tokio::test(start_paused = true)]
async fn rev1_the_longest_timeouts_are_no_panic() {
    let drip = Answer::ok("").content(Content::Drip {
        bytes: "01".into(),
        every: SECOND,
    });
    let strict = scripted(Script::new().rule(When::always(), drip));
    let client = over_pipes(&strict, |api| {
        api.timeouts.attempt = Duration::MAX;
        api.timeouts.read = Duration::MAX;
        api.timeouts.connect = Duration::MAX;
    });
    let answer = client.get("strict", "/").send().await.expect("an answer");
    assert_eq!(answer.bytes().await.unwrap(), "01");
}

#[tokio::test(start_paused = true)]
async fn rev1_the_longest_deadline_is_no_panic() {
    let strict = scripted(Script::new());
    let client = over_pipes(&strict, |api| {
        api.timeouts.attempt = Duration::MAX;
    });
    let call = client
        .get("strict", "/")
        .within(Duration::MAX)
        .max_wait(Duration::MAX);
    call.send().await.expect("an answer");
}

// The runtime in which the client was first used has ended; the next one uses the same client.
#[test]
fn rev1_a_client_outlives_its_first_runtime() {
    let serving = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let strict = StrictApi::builder().build().unwrap();
    let server = serving.block_on(async { strict.listen().await.unwrap() });
    let runtime = || {
        tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap()
    };
    let first = runtime();
    let client = first.block_on(async {
        over_sockets(&server, |api| {
            api.rules = Rules::limited_to("5/s".parse().unwrap())
        })
    });
    for _ in 0..2 {
        first.block_on(async { client.get("strict", "/a").send().await.expect("first") });
    }
    drop(first);
    for _ in 0..3 {
        let next = runtime();
        for _ in 0..6 {
            next.block_on(async {
                tokio::time::timeout(5 * SECOND, client.get("strict", "/b").send())
                    .await
                    .expect("in time")
                    .expect("next")
            });
        }
    }
    assert_eq!(strict.audit().count(), 20);
}

// HEAD, 204 and 304 have no body, whatever their headers say.
#[tokio::test]
async fn rev1_answers_without_bodies() {
    let strict = scripted(Script::new());
    strict.answer("/204", Answer::status(204));
    strict.answer("/304", Answer::status(304));
    strict.answer("/head", Answer::ok("0123456789"));
    let server = strict.listen().await.unwrap();
    let client = over_sockets(&server, |_| {});
    for path in ["/204", "/304"] {
        let answer = client.get("strict", path).send().await.expect(path);
        assert!(answer.bytes().await.unwrap().is_empty());
    }
    let head = client
        .request(http::Method::HEAD, "strict", "/head")
        .send()
        .await
        .expect("head");
    assert!(head.bytes().await.unwrap().is_empty());
    assert!(client.upstream("strict").unwrap().is_idle());
    let again = client.get("strict", "/head").send().await.expect("get");
    assert_eq!(again.bytes().await.unwrap(), "0123456789");
}

// A server that went away and came back on its port: the pool's dead connections cost a GET nothing,
// and a POST is sent once.
#[tokio::test]
async fn rev1_a_restarted_server_is_found_again() {
    let strict = StrictApi::builder().build().unwrap();
    let server = strict.listen().await.unwrap();
    let address = server.address();
    let client = over_sockets(&server, |_| {});
    client.get("strict", "/").send().await.expect("before");
    drop(server);
    tokio::time::sleep(Duration::from_millis(100)).await;
    let listener = tokio::net::TcpListener::bind(address).await.unwrap();
    let _server = strict.serve(listener).unwrap();
    client
        .post("strict", "/")
        .body("x")
        .send()
        .await
        .expect("a POST after");
    client.get("strict", "/").send().await.expect("after");
    assert_eq!(strict.audit().count(), 3);
}

// 3xx without a place are answers.
#[tokio::test(start_paused = true)]
async fn rev1_a_redirect_to_nowhere_is_an_answer() {
    let strict = scripted(Script::new());
    for status in [301, 302, 303, 307, 308, 300] {
        strict.answer("/x", Answer::status(status));
        let client = over_pipes(&strict, |_| {});
        let answer = client.get("strict", "/x").send().await.expect("an answer");
        assert_eq!(answer.status().as_u16(), status);
    }
}

// A 503 asks for 2 s, twice: the caller has 3 s. It is told the 503 and never later than its deadline.
#[tokio::test(start_paused = true)]
async fn rev1_the_sum_of_waits_keeps_to_the_deadline() {
    let strict = scripted(Script::new().rule(When::always(), Refusal::new(503, 2 * SECOND)));
    let client = over_pipes(&strict, |api| api.retry.count = 5);
    let began = Instant::now();
    let answer = client.get("strict", "/").within(3 * SECOND).send().await;
    println!("{:?} {answer:?}", began.elapsed());
    assert!(began.elapsed() <= 3 * SECOND, "{:?}", began.elapsed());
    assert_eq!(answer.expect("the 503").status().as_u16(), 503);
}

// IPv6 base, port and path.
#[tokio::test]
async fn rev1_ipv6_with_port_and_prefix() {
    let strict = StrictApi::builder().build().unwrap();
    strict.answer("/v1/x", Answer::echo());
    let Ok(listener) = tokio::net::TcpListener::bind("[::1]:0").await else {
        return;
    };
    let server = strict.serve(listener).unwrap();
    let url = format!("http://[::1]:{}/v1", server.address().port());
    let client = Outflow::init([eager(&url)]).unwrap();
    let seen = client.get("strict", "/x?a=%2F").send().await.expect("ok");
    assert_eq!(seen.status().as_u16(), 200);
}

// Everything that a user would want to spawn, share or store.
#[test]
fn rev1_futures_can_go_where_users_need_them() {
    fn send<T: Send>(_: T) {}
    fn sync<T: Send + Sync + 'static>() {}
    sync::<Outflow>();
    sync::<outflow::Upstream>();
    sync::<outflow::Permit>();
    sync::<outflow::Tail>();
    sync::<outflow::Admit>();
    sync::<outflow::Response>();
    sync::<outflow::Body>();
    sync::<outflow::Error>();
    sync::<outflow::Config>();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let _inside = runtime.enter();
    let client = Outflow::builder()
        .api(Api::new("a", "http://127.0.0.1:9".parse().unwrap()))
        .build()
        .unwrap();
    send(client.get("a", "/").send());
    send(client.get("a", "/").send_streaming());
}

// Latency of one second, and the client dropped while the call is under way.
#[tokio::test(start_paused = true)]
async fn rev1_a_body_outlives_its_client() {
    let drip = Answer::ok("").content(Content::Drip {
        bytes: "0123456789".into(),
        every: SECOND,
    });
    let strict = scripted(Script::new().rule(When::always(), drip));
    strict.delay(Latency::Fixed(SECOND), Latency::Fixed(SECOND));
    let client = over_pipes(&strict, |_| {});
    let head = client
        .get("strict", "/")
        .send_streaming()
        .await
        .expect("a head");
    drop(client);
    assert_eq!(head.bytes().await.expect("all of it"), "0123456789");
}

// Idempotency-Key: the same on each attempt, and one key only.
#[tokio::test(start_paused = true)]
async fn rev1_a_failed_settle_is_told_once_per_attempt() {
    let strict = scripted(Script::new().rule(When::always(), Answer::status(503)));
    let client = over_pipes(&strict, |api| api.retry.count = 2);
    let heard = Heard::on(client.events());
    let call = client.post("strict", "/").body("x").idempotency_key("k");
    let answer = call.send().await.expect("503");
    let settled = heard
        .all()
        .iter()
        .filter(|e| {
            matches!(
                e.what,
                What::Settled {
                    effect: Effect::ServerFailed,
                    ..
                }
            )
        })
        .count();
    assert_eq!(
        (answer.attempts(), settled, strict.audit().count()),
        (3, 3, 3)
    );
}

// A streamed upload that could not even connect was never begun.
#[tokio::test(start_paused = true)]
async fn rev1_a_stream_that_never_began_may_be_tried_again() {
    let strict = scripted(Script::new());
    let server = Arc::new(strict.in_memory());
    let mut api = eager(&server.url());
    api.retry.count = 2;
    let nth = AtomicUsize::new(0);
    let client = Outflow::builder()
        .api(api)
        .timer(Arc::new(VirtualTime::new()))
        .connector(Arc::new(move |_: &str, _: u16| -> Connecting {
            if nth.fetch_add(1, Ordering::Relaxed) == 0 {
                return Box::pin(async { Err(std::io::ErrorKind::ConnectionRefused.into()) });
            }
            let pipe: Box<dyn Stream> = Box::new(server.connect());
            Box::pin(async move { Ok(pipe) })
        }))
        .build()
        .unwrap();
    let body = http_body_util::Full::new(bytes::Bytes::from_static(b"hello"));
    client
        .post("strict", "/")
        .stream(body)
        .send()
        .await
        .expect("it never began");
}
