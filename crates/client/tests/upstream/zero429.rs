//! No throttle responses: the client against servers that count by arrival, over every latency
//! jitter, in virtual time. The benchmark measures the speed; here the law must hold.

use std::sync::Arc;
use std::time::Duration;

use http::HeaderName;
use outflow::core::{Accounting, Cost, CountBy, HealthConfig, HealthSettings, Limit, Rate};
use outflow::{Api, IoStream, Outflow, Rules};
use outflow_mock::{Latency, MockApi, Quota};
use outflow_testkit::{Background, VirtualTime};

/// A server's quota, and the client's configured limit for it.
type LimitPair = (fn(Rate) -> Quota, fn(Rate) -> Limit);

const KINDS: [LimitPair; 3] = [
    (Quota::sliding, Limit::sliding),
    (Quota::fixed, Limit::fixed),
    (ten_at_once, ten_in_the_bucket),
];

fn ten_at_once(rate: Rate) -> Quota {
    Quota::bucket(rate, 10)
}

fn ten_in_the_bucket(rate: Rate) -> Limit {
    Limit::bucket(rate, 10).expect("valid")
}

/// Builds a server 20 ms away, with exponential jitter, each way.
fn server(quota: Quota, jitter: u64) -> MockApi {
    let (base, mean) = (Duration::from_millis(20), Duration::from_millis(jitter));
    let way = Latency::Exponential { base, mean };
    let api = MockApi::builder().limit(quota).delay(way, way).seed(7);
    api.build().expect("valid")
}

/// Builds a client with unlimited concurrency and without retries.
fn client(mock: &MockApi, limits: Vec<Limit>) -> Outflow {
    let server = Arc::new(mock.in_memory());
    let mut api = Api::new("strict", server.url().parse().expect("a URL"));
    let health = HealthSettings {
        concurrency: Some(1_000),
        ..HealthSettings::ADAPTIVE
    };
    api.rules = Rules {
        limits,
        max_wait: Duration::from_hours(1),
        ..Rules::unlimited()
    };
    api.rules.health = HealthConfig::new(health).expect("valid");
    api.retry.count = 0;
    Outflow::builder()
        .api(api)
        .timer(Arc::new(VirtualTime::new()))
        .connector(Arc::new(move |_: &str, _: u16| -> outflow::Connecting {
            let pipe: Box<dyn IoStream> = Box::new(server.connect());
            Box::pin(async move { Ok(pipe) })
        }))
        .build()
        .expect("valid")
}

/// Runs calls over these callers, each with several in flight. Returns the throttle responses and
/// the most requests in a second.
async fn refused(mock: &MockApi, limit: Limit, callers: usize) -> (usize, u64) {
    let client = client(mock, vec![limit]);
    let caller = |calls: usize| {
        let client = client.clone();
        Background::start(async move {
            for _ in 0..calls {
                client.get("strict", "/").send().await.expect("an answer");
            }
        })
    };
    // Sixteen calls in flight per caller exceed what any of these limits admits in a round trip.
    let running: Vec<_> = (0..callers * 16).map(|_| caller(CALLS / callers / 16)).collect();
    for one in running {
        one.join().await;
    }
    let audit = mock.audit();
    (audit.refused(), audit.most_in_any_window(Duration::from_secs(1)))
}

async fn nothing_is_refused(accounting: Accounting) {
    for (number, (quota, limit)) in KINDS.into_iter().enumerate() {
        for jitter in [0, 10, 50] {
            for callers in [1, 4] {
                let rate = Rate::per_second(10).expect("valid");
                let mock = server(quota(rate), jitter);
                let (refused, most) = refused(&mock, limit(rate).counted(accounting), callers).await;
                assert_eq!(
                    refused, 0,
                    "kind {number}, {jitter} ms, {callers} callers, at most {most} in a second"
                );
            }
        }
    }
}

// 320 calls at 10/s are 32 windows; 18 cells make 5,760 calls.
const CALLS: usize = 320;

#[tokio::test(start_paused = true)]
async fn safe_accounting_gets_no_throttle_from_any_server() {
    nothing_is_refused(Accounting::Safe).await;
}

#[tokio::test(start_paused = true)]
async fn tight_accounting_gets_no_throttle_over_a_constant_latency() {
    nothing_is_refused(Accounting::Tight).await;
}

// These servers throttle a client that counts its own sends, or the two laws above would say
// nothing.
#[tokio::test(start_paused = true)]
async fn send_accounting_is_throttled_over_a_jittery_link() {
    let rate = Rate::per_second(10).expect("valid");
    let mock = server(Quota::sliding(rate), 50);
    let (refused, _) = refused(&mock, Limit::sliding(rate).counted(Accounting::Send), 1).await;
    assert!(refused > 0);
}

/// Runs against a server like those of language models: ten calls and a hundred tokens a second,
/// with a declared token cost per call. Returns the throttle responses and the most calls and
/// tokens in a second.
async fn refused_by_both(limits: &[Limit]) -> (usize, u64, u64) {
    let rate = |units| Rate::per_second(units).expect("valid");
    let (base, mean) = (Duration::from_millis(20), Duration::from_millis(10));
    let way = Latency::Exponential { base, mean };
    let mock = MockApi::builder()
        .limit(Quota::sliding(rate(10)).named("requests").counting_calls())
        .limit(Quota::sliding(rate(100)).named("tokens"))
        .cost_from(HeaderName::from_static("x-tokens"))
        .delay(way, way)
        .seed(7)
        .build()
        .expect("valid");
    let limits = limits.iter().map(|limit| limit.counted(Accounting::Safe));
    let client = client(&mock, limits.collect());
    let call = |tokens: u64| {
        let client = client.clone();
        Background::start(async move {
            let call = client.get("strict", "/").cost(Cost::new(tokens));
            let call = call.header("x-tokens", tokens.to_string());
            call.send().await.expect("an answer");
        })
    };
    // A hundred light calls, limited by calls, then a hundred heavy ones, limited by tokens.
    for tokens in [2, 20] {
        let running: Vec<_> = (0..100).map(|_| call(tokens)).collect();
        for one in running {
            one.join().await;
        }
    }
    let (audit, second) = (mock.audit(), Duration::from_secs(1));
    let most = audit.most_cost_in_any_window(second);
    (audit.refused(), audit.most_in_any_window(second), most)
}

#[tokio::test(start_paused = true)]
async fn the_client_keeps_call_and_token_limits_together() {
    let rate = |units| Rate::per_second(units).expect("valid");
    let calls = Limit::sliding(rate(10)).measured_in(CountBy::Calls);
    let tokens = Limit::sliding(rate(100)).measured_in(CountBy::Tokens);
    assert_eq!(refused_by_both(&[calls, tokens]).await, (0, 10, 100));
    // A client that knows only one of the limits is throttled for the other.
    for alone in [calls, tokens] {
        let (refused, ..) = refused_by_both(&[alone]).await;
        assert!(refused > 0, "{alone:?}");
    }
}
