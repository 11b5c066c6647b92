//! Detection of a limit that is configured far too high: few calls are throttled, none fails, and
//! little time is lost. The client runs against servers of every kind, in virtual time.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use outflow::core::{HealthOverride, Rate, RetryBudgetSettings, Share};
use outflow::event::EventKind;
use outflow::{Api, IoStream, Outflow, Rules};
use outflow_mock::{
    ArrivalVerdict, Dialect, Latency, MockApi, Quota, ResetForm, RetryAfterForm, Script, ScriptMatch, ThrottleResponse,
};
use outflow_testkit::{Background, EventRecorder, VirtualTime};

const SECOND: Duration = Duration::from_secs(1);

/// Counting method of a server.
#[derive(Clone, Copy, Debug)]
enum CountKind {
    Sliding,
    Fixed,
    Bucket,
}

impl CountKind {
    fn quota(self, rate: Rate) -> Quota {
        match self {
            Self::Sliding => Quota::sliding(rate),
            Self::Fixed => Quota::fixed(rate),
            Self::Bucket => Quota::bucket(rate, rate.quantity()),
        }
    }

    /// Returns the allowed excess time for a thousand calls, in per cent. A bucket that filled up
    /// during the wait lets through twice its rate, so that its rate shows only burst by burst.
    const fn excess_percent(self) -> u32 {
        match self {
            Self::Sliding | Self::Fixed => 15,
            Self::Bucket => 45,
        }
    }
}

/// Hints of a server about its limit.
#[derive(Clone, Copy, Debug)]
enum ServerHints {
    /// None: a throttle response is a bare 429.
    Nothing,
    /// Retry-After, in whole seconds.
    RetryAfter,
    /// The limit itself, with every response.
    Ietf,
    /// The limit without its window, and the time of its full reset.
    Plain,
}

impl ServerHints {
    /// Returns the time that throttles may cost a single caller. It uses a quarter of the limit at most, so
    /// the first two say nothing about the rate, and three more find a fixed window. Each asks to wait for a
    /// second, which we extend by up to another.
    const fn waits_of_one(self, callers: usize) -> Duration {
        match self {
            Self::RetryAfter | Self::Plain if callers == 1 => Duration::from_secs(10),
            _ => Duration::ZERO,
        }
    }
}

/// Builds a server five milliseconds away with this limit.
fn server(real: u64, kind: CountKind, hints: ServerHints) -> MockApi {
    let quota = kind.quota(Rate::per_second(real).expect("valid"));
    let way = Latency::Fixed(Duration::from_millis(5));
    let api = MockApi::builder().limit(quota).delay(way, way);
    let api = match hints {
        ServerHints::Nothing => api.refusing(429, RetryAfterForm::Nothing),
        ServerHints::RetryAfter => api,
        ServerHints::Ietf => api.dialect(Dialect::Ietf),
        ServerHints::Plain => api.dialect(Dialect::XRateLimit(ResetForm::Seconds)),
    };
    api.build().expect("valid")
}

/// Builds a client with this configured limit. It has one retry per call and a retry budget of one a
/// second in total: a wrong limit must not need them.
fn client(mock: &MockApi, believed: u64) -> Outflow {
    client_with(mock, believed, |api| {
        api.retry.count = 1;
        api.retry.budget = RetryBudgetSettings {
            share: Share::percent(1),
            per_second: 1,
            ..RetryBudgetSettings::default()
        };
    })
}

/// Builds a client with a limit and these changes of the defaults.
fn client_with(mock: &MockApi, believed: u64, change: impl FnOnce(&mut Api)) -> Outflow {
    let server = Arc::new(mock.in_memory());
    let mut api = Api::new("strict", server.url().parse().expect("a URL"));
    api.rules = Rules::with_limit(Rate::per_second(believed).expect("valid"));
    change(&mut api);
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

/// Result of a storm.
#[derive(Debug)]
struct StormResult {
    failed: usize,
    refused: usize,
    took: Duration,
    moves: Vec<String>,
}

/// Runs this many calls over this many callers, each waiting for its last response.
async fn storm(mock: &MockApi, client: &Outflow, calls: usize, callers: usize) -> StormResult {
    let recorder = EventRecorder::subscribed_to(client.events());
    let (next, failed) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let began = mock.now();
    let caller = || {
        let (client, next, failed) = (client.clone(), Arc::clone(&next), Arc::clone(&failed));
        Background::start(async move {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= calls {
                    return;
                }
                let response = client.get("strict", &format!("/{number}")).send().await;
                let well = response.is_ok_and(|response| response.status().is_success());
                failed.fetch_add(usize::from(!well), Ordering::Relaxed);
            }
        })
    };
    let running: Vec<_> = (0..callers).map(|_| caller()).collect();
    for one in running {
        one.join().await;
    }
    StormResult {
        failed: failed.load(Ordering::Relaxed),
        refused: mock.audit().refused(),
        took: mock.now().since(began),
        moves: recorder.select(|kind| match kind {
            EventKind::Moved { transition, .. } => Some(format!("{transition:?}")),
            _ => None,
        }),
    }
}

/// Runs a thousand calls: at most a twentieth throttled, none failed, little time lost, no early
/// attempt, and no health change.
async fn assert_detected(believed: u64, real: u64, hints: ServerHints) {
    for kind in [CountKind::Sliding, CountKind::Fixed, CountKind::Bucket] {
        for callers in [1, 100] {
            let case = format!("{believed} for {real}, {kind:?}, {hints:?}, {callers} callers");
            let mock = server(real, kind, hints);
            let client = client(&mock, believed);
            let storm = storm(&mock, &client, 1_000, callers).await;
            assert_eq!(storm.failed, 0, "{case}: {storm:?}");
            assert!(storm.refused <= 50, "{case}: {storm:?}");
            let ideal = SECOND * u32::try_from(1_000 / real).expect("small");
            let most = ideal * (100 + kind.excess_percent()) / 100 + hints.waits_of_one(callers);
            assert!(storm.took <= most, "{case}: {storm:?}");
            assert_eq!(storm.moves, [""; 0], "{case}");
            let early = mock.audit().sent_before_retry_after();
            assert!(early.is_empty(), "{case}: {early:?}");
        }
    }
}

// Four times, ten times and twenty times the real limit.
const WRONG: [(u64, u64); 3] = [(200, 50), (100, 10), (1_000, 50)];

#[tokio::test(start_paused = true)]
async fn the_client_detects_a_wrong_limit_from_bare_throttles() {
    for (believed, real) in WRONG {
        assert_detected(believed, real, ServerHints::Nothing).await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_client_detects_a_wrong_limit_from_retry_after() {
    for (believed, real) in WRONG {
        assert_detected(believed, real, ServerHints::RetryAfter).await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_client_detects_a_wrong_limit_from_headers() {
    for (believed, real) in WRONG {
        for hints in [ServerHints::Ietf, ServerHints::Plain] {
            assert_detected(believed, real, hints).await;
        }
    }
}

// Fifty a second are right for ten seconds, and then only twenty are allowed.
#[tokio::test(start_paused = true)]
async fn the_client_detects_a_limit_that_is_lowered_later() {
    for hints in [ServerHints::Nothing, ServerHints::RetryAfter, ServerHints::Ietf] {
        let mock = server(50, CountKind::Sliding, hints);
        let client = client(&mock, 50);
        let (lowered, later) = (mock.clone(), tokio::time::sleep(10 * SECOND));
        let lowering = Background::start(async move {
            later.await;
            let less = Rate::per_second(20).expect("valid");
            lowered.limit_to(vec![Quota::sliding(less)]);
        });
        let storm = storm(&mock, &client, 1_000, 100).await;
        lowering.join().await;
        assert_eq!(storm.failed, 0, "{hints:?}: {storm:?}");
        assert!(storm.refused <= 50, "{hints:?}: {storm:?}");
        // Ten seconds for the first half and 25 for the other.
        assert!(storm.took <= 35 * SECOND * 115 / 100, "{hints:?}: {storm:?}");
    }
}

// Two hundred callers at once, ten a second, of which the eleventh and a few more are throttled.
// They go before the callers without an attempt. Simultaneous connections may swap, so that each
// is within four of its position; at the queue's end it would be nearly two hundred. Ten of a hundred
// were used, so the first two are no evidence yet: they go again after a backoff, a window later.
#[tokio::test(start_paused = true)]
async fn a_call_throttled_for_a_wrong_limit_keeps_its_position() {
    for hints in [ServerHints::Nothing, ServerHints::RetryAfter] {
        let mock = server(10, CountKind::Sliding, hints);
        let client = client(&mock, 100);
        let storm = storm(&mock, &client, 200, 200).await;
        assert_eq!(storm.failed, 0);
        assert!(storm.refused > 0, "no call was throttled");
        let audit = mock.audit().only(|one| one.verdict == ArrivalVerdict::Allowed);
        let number = |path: &str| path[1..].parse::<u32>().expect("a number");
        for (place, one) in (0..).zip(audit.arrivals()) {
            let number = number(&one.path);
            let most = if (10..12).contains(&number) { 14 } else { 4 };
            assert!(
                number.abs_diff(place) <= most,
                "{hints:?}: {number} came as number {place}"
            );
        }
    }
}

// The right limit with a hundred callers, responses after 5 ms and after 500. Confirming it costs
// a near server nothing and a far one less than a second.
#[tokio::test(start_paused = true)]
async fn confirming_a_right_limit_costs_less_than_a_second() {
    for (millis, most) in [(5, 100), (500, 900)] {
        let mock = server(50, CountKind::Sliding, ServerHints::Nothing);
        let way = Latency::Fixed(Duration::from_millis(millis));
        mock.delay(way, way);
        let client = client(&mock, 50);
        let storm = storm(&mock, &client, 500, 100).await;
        assert_eq!((storm.failed, storm.refused), (0, 0));
        // Nine windows and the latency of the last calls; safe counting at first costs latencies
        // too.
        let ideal = 9 * SECOND;
        let lost = storm.took.saturating_sub(ideal);
        assert!(lost <= Duration::from_millis(most) + latency_costs(millis), "{lost:?}");
    }
}

/// Returns the cost of the unknown latency: at first each window lasts until its last response.
fn latency_costs(millis: u64) -> Duration {
    Duration::from_millis(2 * millis) * 3
}

// A server that throttles everything has no wrong limit. Health is forced to Normal: a few bursts
// lower the limits, and then the budget of a hundredth decides.
#[tokio::test(start_paused = true)]
async fn a_server_that_throttles_everything_is_not_retried_for_ever() {
    let mock = server(1_000, CountKind::Sliding, ServerHints::Nothing);
    let refusal = ThrottleResponse::new(429, Duration::ZERO).with_retry_after(RetryAfterForm::Nothing);
    mock.rewrite(Script::new().rule(ScriptMatch::always(), refusal));
    let client = client(&mock, 200);
    client
        .upstream("strict")
        .expect("there")
        .force_health(None, HealthOverride::Normal);
    let storm = storm(&mock, &client, 400, 100).await;
    assert_eq!(storm.failed, 400);
    let sent = mock.audit().count();
    assert!(sent <= 440, "{sent} attempts of 400 calls");
}

/// Makes ten calls a second with the defaults of a user, of which every tenth goes to `/search`. Returns
/// the calls that failed, the lowest rate in effect and the last one.
async fn ten_a_second(mock: &MockApi, seconds: u64) -> (usize, u64, u64) {
    let client = client_with(mock, 200, |_| {});
    let upstream = client.upstream("strict").expect("there");
    let failed = Arc::new(AtomicUsize::new(0));
    let (mut lowest, mut last) = (200, 200);
    let mut running = Vec::new();
    for number in 0..seconds * 10 {
        let path = if number % 10 == 9 { "/search" } else { "/items" };
        let (call, failed) = (client.get("strict", path), Arc::clone(&failed));
        running.push(Background::start(async move {
            let well = call.send().await.is_ok_and(|response| response.status().is_success());
            failed.fetch_add(usize::from(!well), Ordering::Relaxed);
        }));
        tokio::time::sleep(Duration::from_millis(100)).await;
        let target = upstream.group("default").expect("a group");
        last = upstream
            .effective_limits(target)
            .first()
            .expect("a limit")
            .rate
            .quantity();
        lowest = lowest.min(last);
    }
    for one in running {
        one.join().await;
    }
    (failed.load(Ordering::Relaxed), lowest, last)
}

// A twentieth of the limit is used, and one call is throttled: another program, or chance.
#[tokio::test(start_paused = true)]
async fn one_429_far_below_the_limit_leaves_it_alone() {
    let mock = server(200, CountKind::Sliding, ServerHints::Nothing);
    let refusal = ThrottleResponse::new(429, Duration::ZERO).with_retry_after(RetryAfterForm::Nothing);
    mock.rewrite(Script::new().rule(ScriptMatch::always().numbers(55..56), refusal));
    assert_eq!(ten_a_second(&mock, 30).await, (0, 200, 200));
}

// `/search` always answers 429, one call a second of ten. The other nine have as much of the limit as they
// use, and all of them succeed.
#[tokio::test(start_paused = true)]
async fn an_endpoint_that_always_throttles_does_not_starve_its_group() {
    let mock = server(200, CountKind::Sliding, ServerHints::Nothing);
    let refusal = ThrottleResponse::new(429, Duration::ZERO).with_retry_after(RetryAfterForm::Nothing);
    mock.rewrite(Script::new().rule(ScriptMatch::path("/search"), refusal));
    let (failed, lowest, last) = ten_a_second(&mock, 300).await;
    assert_eq!(failed, 300, "only `/search` fails");
    assert_eq!((lowest, last), (200, 200));
}
