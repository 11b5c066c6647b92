//! The whole server: limits through connections, in memory and on sockets.

use std::time::Duration;

use http::{HeaderName, Method, header};
use outflow_core::{Clock, Cost, Dialects, HintUnit, Hints, Nanos, ResponseTime, WallTime};
use outflow_mock::{
    ArrivalVerdict, Bans, CallerKey, Dialect, InvalidApi, Latency, MockApi, MockResponse, Quota, Received, ResetForm,
    RetryAfterForm, Route, TokioClock,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, sleep};

use crate::support::{api, get, header as sent_at, last_get, said_to, serving, status, talk, tcp};

const MS: Duration = Duration::from_millis(1);

fn quota(rate: &str) -> Quota {
    Quota::sliding(rate.parse().expect("a rate"))
}

// Two per second: the third must come back when the first one leaves the log.
#[tokio::test(start_paused = true)]
async fn a_limit_throttles_and_names_the_wait() {
    let builder = MockApi::builder().limit(quota("2/s"));
    let server = serving(builder.refusing(429, RetryAfterForm::Fraction));
    said_to(&server, &last_get("/a")).await;
    sleep(250 * MS).await;
    said_to(&server, &last_get("/b")).await;
    let refused = said_to(&server, &last_get("/c")).await;
    assert_eq!(status(&refused), "429");
    assert_eq!(sent_at(&refused, "retry-after"), Some("0.750"));
    sleep(749 * MS).await;
    assert_eq!(status(&said_to(&server, &last_get("/c")).await), "429");
    sleep(MS).await;
    assert_eq!(status(&said_to(&server, &last_get("/c")).await), "200");
    let audit = server.api().audit();
    assert_eq!(audit.refused(), 2);
    assert_eq!(audit.arrivals()[2].verdict, ArrivalVerdict::Refused("requests".into()));
    let early: Vec<_> = audit.sent_before_retry_after();
    assert_eq!(early.len(), 1, "the one at 999 ms: {early:?}");
    assert_eq!(early[0].arrival.number, 3);
}

// Sent 600 ms apart and 500 ms slower the second time: they arrive 1,100 ms apart, and a third sent
// with the second on a fast path is first.
#[tokio::test(start_paused = true)]
async fn a_request_counts_on_arrival() {
    let builder = MockApi::builder().limit(quota("1/s"));
    let server = serving(builder.delay(Latency::Fixed(10 * MS), Latency::Fixed(30 * MS)));
    let start = Instant::now();
    said_to(&server, &last_get("/first")).await;
    assert_eq!(start.elapsed(), 40 * MS);
    sleep(560 * MS).await;
    server.api().delay(Latency::Fixed(510 * MS), Latency::None);
    assert_eq!(status(&said_to(&server, &last_get("/second")).await), "200");
    let audit = server.api().audit();
    let arrivals = audit.arrivals();
    assert_eq!(arrivals[1].at.since(arrivals[0].at), 1_100 * MS);
    assert_eq!(arrivals[1].received.since(arrivals[0].received), 600 * MS);
}

#[tokio::test(start_paused = true)]
async fn a_request_arrives_even_if_its_sender_cancelled() {
    let slow = Latency::Fixed(100 * MS);
    let server = serving(MockApi::builder().delay(slow, slow));
    let mut pipe = server.connect();
    pipe.write_all(get("/lost").as_bytes()).await.unwrap();
    sleep(50 * MS).await;
    drop(pipe);
    assert_eq!(server.api().audit().count(), 0);
    sleep(60 * MS).await;
    let audit = server.api().audit();
    assert_eq!(audit.attempts("/lost"), 1);
    assert_eq!(audit.arrivals()[0].status, None);
}

#[tokio::test]
async fn routes_have_costs_and_callers_have_keys() {
    let builder = MockApi::builder()
        .key(CallerKey::Header(header::AUTHORIZATION))
        .route(
            Route::new("orders", "/orders/**")
                .method(Method::POST)
                .costing(Cost::new(5)),
        )
        .limit(quota("9/h").named("weight"))
        .cost_from(HeaderName::from_static("x-cost"))
        .noting(HeaderName::from_static("traceparent"));
    let server = serving(builder);
    let post = |key: &str, more: &str| {
        format!("POST /orders/7?x=1 HTTP/1.1\r\nauthorization: {key}\r\n{more}connection: close\r\n\r\n")
    };
    let asked = [
        (post("a", "idempotency-key: k1\r\ntraceparent: t\r\n"), "200"),
        (post("a", ""), "429"),
        (post("b", ""), "200"),
        (post("a", "x-cost: 4\r\n"), "200"),
        (last_get("/orders/7"), "200"),
    ];
    for (request, wanted) in &asked {
        assert_eq!(status(&said_to(&server, request).await), *wanted, "{request}");
    }
    let audit = server.api().audit();
    let seen = &audit.arrivals()[0];
    assert_eq!((&*seen.caller, &*seen.route, &*seen.path), ("a", "orders", "/orders/7"));
    assert_eq!(seen.idempotency_key.as_ref().unwrap(), "k1");
    assert_eq!(seen.headers[0].1, "t");
    assert_eq!(audit.on_route("default").count(), 1);
    assert_eq!(
        audit.of_caller("a").most_cost_in_any_window(Duration::from_hours(1)),
        14
    );
}

#[test]
fn a_limit_needs_its_route() {
    let built = MockApi::builder().limit(quota("1/s").on("orders")).build();
    let wrong = built.expect_err("an unknown route");
    assert_eq!(wrong, InvalidApi::NoSuchRoute("orders".into()));
    assert!(wrong.to_string().contains("`orders`"));
}

// Three strikes: the third refusal is a ban of a minute, and a further request doubles it.
#[tokio::test(start_paused = true)]
async fn a_caller_that_ignores_throttles_is_banned() {
    let bans = Bans::after(3).lasting(Duration::from_mins(1));
    let server = serving(MockApi::builder().limit(quota("1/s")).banning(bans));
    let mut seen = Vec::new();
    for _ in 0..7 {
        let received = said_to(&server, &last_get("/")).await;
        let wait = sent_at(&received, "retry-after").unwrap_or("-").to_owned();
        seen.push((status(&received).to_owned(), wait));
    }
    let seen: Vec<_> = seen.iter().map(|(a, b)| (&**a, &**b)).collect();
    let refused = [("429", "1"), ("429", "1"), ("418", "60"), ("418", "60"), ("418", "60")];
    assert_eq!(seen[0], ("200", "-"));
    assert_eq!(seen[1..6], refused);
    assert_eq!(seen[6], ("418", "120"));
    sleep(Duration::from_mins(2)).await;
    assert_eq!(status(&said_to(&server, &last_get("/")).await), "200");
    assert_eq!(server.api().totals().banned, 4);
}

// The headers are read by the core's own reader: 10 per minute, of which three are used.
#[tokio::test(start_paused = true)]
async fn every_dialect_reports_the_limit() {
    for dialect in [
        Dialect::Ietf,
        Dialect::XRateLimit(ResetForm::Seconds),
        Dialect::XRateLimit(ResetForm::Epoch),
        Dialect::XRateLimit(ResetForm::Rfc3339),
        Dialect::XRateLimit(ResetForm::Span),
        Dialect::OpenAi,
        Dialect::Anthropic,
        Dialect::Upbit,
        Dialect::Binance,
        Dialect::Shopify,
    ] {
        let clock = TokioClock::starting_at(WallTime::from_unix_secs(1_700_000_000));
        let builder = MockApi::builder()
            .limit(Quota::fixed("10/min".parse().unwrap()))
            .clock(std::sync::Arc::new(clock))
            .dialect(dialect);
        let server = serving(builder);
        let mut received = String::new();
        for _ in 0..3 {
            received = said_to(&server, &last_get("/")).await;
        }
        let pairs = received.split("\r\n").filter_map(|line| line.split_once(": "));
        let pairs = pairs.map(|(name, value)| (name, value.as_bytes()));
        let came = ResponseTime {
            date: None,
            wall: clock.wall(),
        };
        let hints = Hints::read(pairs, Dialects::ALL, came);
        assert_eq!(hints.malformed(), 0, "{dialect:?}: {received}");
        let hint = hints.iter().next().unwrap_or_else(|| panic!("{dialect:?}: {received}"));
        assert!(hint.limit.is_none_or(|limit| limit == 10), "{dialect:?} {hint:?}");
        let left = hint.remaining.or(hint.used.map(|used| 10 - used));
        assert_eq!(left, Some(7), "{dialect:?} {hint:?}");
        let minute = Duration::from_mins(1);
        assert!(
            hint.resets_in.is_none_or(|reset| reset == minute),
            "{dialect:?} {hint:?}"
        );
        if dialect == Dialect::Binance {
            assert_eq!((hint.window, hint.unit), (Some(minute), HintUnit::Weight));
        }
    }
}

// Seven of ten calls and a hundred of a thousand tokens are left: the calls are the tighter limit.
#[tokio::test]
async fn the_tightest_limit_or_all_by_name_are_reported() {
    let builder = MockApi::builder()
        .limit(quota("1000/min").named("tokens"))
        .limit(quota("10/min").named("requests").counting_calls())
        .cost_from(HeaderName::from_static("x-cost"))
        .dialect(Dialect::XRateLimit(ResetForm::Seconds))
        .dialect(Dialect::OpenAi);
    let server = serving(builder);
    let ask = "GET / HTTP/1.1\r\nx-cost: 300\r\nconnection: close\r\n\r\n";
    let mut received = String::new();
    for _ in 0..3 {
        received = said_to(&server, ask).await;
    }
    assert_eq!(sent_at(&received, "x-ratelimit-remaining"), Some("7"));
    assert_eq!(sent_at(&received, "x-ratelimit-remaining-requests"), Some("7"));
    assert_eq!(sent_at(&received, "x-ratelimit-remaining-tokens"), Some("100"));
    assert_eq!(sent_at(&received, "x-ratelimit-limit-tokens"), Some("1000"));
    let throttled = said_to(&server, ask).await;
    assert_eq!(status(&throttled), "429");
    assert!(throttled.contains("\"code\":\"rate_limit_exceeded\""), "{throttled}");
}

#[tokio::test]
async fn a_page_is_revalidated_and_can_be_replaced() {
    let page = |tag: &str| {
        MockResponse::ok("{}")
            .header("etag", tag)
            .header("cache-control", "max-age=60")
            .header("vary", "accept")
    };
    let server = serving(MockApi::builder().answer("/page", page("\"v1\"")));
    let ask = "GET /page HTTP/1.1\r\nif-none-match: \"v1\"\r\nconnection: close\r\n\r\n";
    let received = said_to(&server, ask).await;
    assert_eq!(status(&received), "304");
    assert_eq!(sent_at(&received, "cache-control"), Some("max-age=60"));
    assert!(received.ends_with("\r\n\r\n"), "{received}");
    server.api().answer("/page", page("\"v2\""));
    assert_eq!(status(&said_to(&server, ask).await), "200");
}

// The hash of the empty text is FNV's offset, that of `a` is in its published table.
#[tokio::test]
async fn an_echo_returns_the_received_request() {
    let server = serving(MockApi::builder().answer("/echo/**", MockResponse::echo()));
    let request = "PUT /echo/x?y=1 HTTP/1.1\r\nx-a: 1\r\ncontent-length: 1\r\nconnection: close\r\n\r\na";
    let received = said_to(&server, request).await;
    let (_, body) = received.split_once("\r\n\r\n").unwrap();
    let seen: serde_json::Value = serde_json::from_str(body).unwrap();
    assert_eq!(seen["method"], "PUT");
    assert_eq!(seen["path"], "/echo/x");
    assert_eq!(seen["query"], "y=1");
    assert_eq!(seen["headers"][0], serde_json::json!(["x-a", "1"]));
    assert_eq!(seen["body_length"], 1);
    assert_eq!(seen["body_hash"], "af63dc4c8601ec8c");
    assert_eq!(server.api().audit().arrivals()[0].body, Received::Whole(1));
}

#[tokio::test]
async fn a_truncated_body_is_recorded_as_cut() {
    let server = serving(MockApi::builder());
    let mut pipe = server.connect();
    let request = "POST / HTTP/1.1\r\ncontent-length: 10\r\n\r\nhalf";
    pipe.write_all(request.as_bytes()).await.unwrap();
    pipe.shutdown().await.unwrap();
    let mut rest = Vec::new();
    pipe.read_to_end(&mut rest).await.unwrap();
    assert_eq!(server.api().audit().arrivals()[0].body, Received::Cut(4));
    assert_eq!(server.api().audit().cut_bodies(), 1);
}

#[tokio::test]
async fn it_listens_on_a_free_port_and_numbers_connections() {
    let api = api(MockApi::builder());
    let server = api.listen().await.unwrap();
    let other = api.listen().await.unwrap();
    assert_ne!(server.address().port(), other.address().port());
    assert_eq!(server.url(), format!("http://{}", server.address()));
    for place in [&server, &other] {
        let (received, ended) = talk(tcp(place).await, &last_get("/")).await;
        ended.unwrap();
        assert_eq!(status(&received), "200");
    }
    let audit = api.audit();
    let connections: Vec<_> = audit.arrivals().iter().map(|a| a.connection).collect();
    assert_eq!(connections, [0, 1]);
}

#[tokio::test]
async fn it_stops_when_its_handle_is_dropped() {
    let server = api(MockApi::builder()).listen().await.unwrap();
    let mut open = tcp(&server).await;
    let address = server.address();
    drop(server);
    assert!(matches!(open.read(&mut [0]).await, Ok(0) | Err(_)), "connections end");
    let refused = tokio::net::TcpStream::connect(address).await;
    refused.expect_err("a closed port");
}

// The response's date is the server's, whose clock may be wrong.
#[tokio::test(start_paused = true)]
async fn dates_use_the_servers_clock() {
    let clock = TokioClock::starting_at(WallTime::from_unix_secs(784_111_777));
    let server = serving(MockApi::builder().clock(std::sync::Arc::new(clock)));
    let received = said_to(&server, &last_get("/")).await;
    assert_eq!(sent_at(&received, "date"), Some("Sun, 06 Nov 1994 08:49:37 GMT"));
    assert_eq!(received.matches("date: ").count(), 1, "{received}");
    assert_eq!(server.api().now(), Nanos::ZERO);
}

#[tokio::test]
async fn a_long_run_keeps_totals_and_the_last_requests() {
    let server = serving(MockApi::builder().limit(quota("3/h")).remembering(2));
    for _ in 0..5 {
        said_to(&server, &last_get("/")).await;
    }
    let totals = server.api().totals();
    assert_eq!((totals.seen, totals.allowed, totals.refused), (5, 3, 2));
    assert_eq!(totals.by_status[&429], 2);
    assert_eq!(server.api().audit().count(), 2);
    server.api().forget();
    assert_eq!(server.api().totals().seen, 0);
    assert_eq!(
        status(&said_to(&server, &last_get("/")).await),
        "429",
        "limits are not forgotten"
    );
    server.api().limit_to(vec![quota("1/h")]);
    assert_eq!(status(&said_to(&server, &last_get("/")).await), "200");
}

/// Works until a request arrives.
struct BrokenClock;

impl Clock for BrokenClock {
    fn now(&self) -> Nanos {
        Nanos::ZERO
    }

    fn wall(&self) -> WallTime {
        std::panic::resume_unwind(Box::new("the clock broke"))
    }
}

// With a delay the request arrives in a separate task; both kinds of task must be watched.
#[tokio::test(start_paused = true)]
async fn a_panic_inside_fails_the_owner() {
    for there in [Latency::None, Latency::Fixed(MS)] {
        let clock = std::sync::Arc::new(BrokenClock);
        let server = serving(MockApi::builder().clock(clock).delay(there, Latency::None));
        let mut pipe = server.connect();
        pipe.write_all(get("/").as_bytes()).await.expect("written");
        sleep(10 * MS).await;
        let dropped = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(server)));
        let received = dropped.expect_err("a panic");
        assert_eq!(received.downcast_ref(), Some(&"the clock broke"), "{there:?}");
    }
}
