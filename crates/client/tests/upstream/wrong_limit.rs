//! A limit that is configured far too high is found out: few calls are refused, none fails, and little
//! time is lost. The client against servers of every kind, in virtual time.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use outflow::core::{
    HealthConfig, HealthOverride, HealthSettings, Rate, RetryBudgetSettings, Share,
};
use outflow::event::EventKind;
use outflow::{Api, IoStream, Outflow, Rules};
use outflow_mock::{
    ArrivalVerdict, Dialect, Latency, MockApi, Quota, ResetForm, RetryAfterForm, Script,
    ScriptMatch, ThrottleResponse,
};
use outflow_testkit::{Background, EventRecorder, VirtualTime};

const SECOND: Duration = Duration::from_secs(1);

/// How a server counts.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Sliding,
    Fixed,
    Bucket,
}

impl Kind {
    fn quota(self, rate: Rate) -> Quota {
        match self {
            Self::Sliding => Quota::sliding(rate),
            Self::Fixed => Quota::fixed(rate),
            Self::Bucket => Quota::bucket(rate, rate.quantity()),
        }
    }

    /// How much longer than at the real limit a thousand calls may take, in per cent. A bucket that has
    /// filled up while everybody waited lets through twice its rate, so its rate shows only wave by wave.
    const fn patience(self) -> u32 {
        match self {
            Self::Sliding | Self::Fixed => 15,
            Self::Bucket => 45,
        }
    }
}

/// What a server says of its limit.
#[derive(Clone, Copy, Debug)]
enum Told {
    /// Nothing: a refusal is a bare 429.
    Nothing,
    /// When to come back, in whole seconds.
    RetryAfter,
    /// The limit itself, with every answer.
    Ietf,
    /// The limit without its window, and when all of it is back.
    Plain,
}

/// A server five milliseconds away that allows so much.
fn server(real: u64, kind: Kind, told: Told) -> MockApi {
    let quota = kind.quota(Rate::per_second(real).expect("valid"));
    let way = Latency::Fixed(Duration::from_millis(5));
    let api = MockApi::builder().limit(quota).delay(way, way);
    let api = match told {
        Told::Nothing => api.refusing(429, RetryAfterForm::Nothing),
        Told::RetryAfter => api,
        Told::Ietf => api.dialect(Dialect::Ietf),
        Told::Plain => api.dialect(Dialect::XRateLimit(ResetForm::Seconds)),
    };
    api.build().expect("valid")
}

/// A client that believes in so much, with room for a hundred calls in flight and one repetition, of
/// which there is one a second for all: whoever is refused for a wrong limit must not need it.
fn client(strict: &MockApi, believed: u64) -> Outflow {
    let server = Arc::new(strict.in_memory());
    let mut api = Api::new("strict", server.url().parse().expect("a URL"));
    api.rules = Rules::with_limit(Rate::per_second(believed).expect("valid"));
    api.rules.health = HealthConfig::new(HealthSettings {
        concurrency: 100,
        ..HealthSettings::ADAPTIVE
    })
    .expect("valid");
    api.retry.count = 1;
    api.retry.budget = RetryBudgetSettings {
        share: Share::percent(1),
        per_second: 1,
        ..RetryBudgetSettings::default()
    };
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

/// What became of a storm.
#[derive(Debug)]
struct Storm {
    failed: usize,
    refused: usize,
    took: Duration,
    moves: Vec<String>,
}

/// So many calls by so many callers, each after its last was answered.
async fn storm(strict: &MockApi, client: &Outflow, calls: usize, callers: usize) -> Storm {
    let recorder = EventRecorder::subscribed_to(client.events());
    let (next, failed) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let began = strict.now();
    let caller = || {
        let (client, next, failed) = (client.clone(), Arc::clone(&next), Arc::clone(&failed));
        Background::start(async move {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= calls {
                    return;
                }
                let answer = client.get("strict", &format!("/{number}")).send().await;
                let well = answer.is_ok_and(|answer| answer.status().is_success());
                failed.fetch_add(usize::from(!well), Ordering::Relaxed);
            }
        })
    };
    let everybody: Vec<_> = (0..callers).map(|_| caller()).collect();
    for one in everybody {
        one.join().await;
    }
    Storm {
        failed: failed.load(Ordering::Relaxed),
        refused: strict.audit().refused(),
        took: strict.now().since(began),
        moves: recorder.select(|kind| match kind {
            EventKind::Moved { transition, .. } => Some(format!("{transition:?}")),
            _ => None,
        }),
    }
}

/// A thousand calls: at most a twentieth refused, none failed, little time lost, nothing sent before a
/// time that was told, and nothing taken for an illness.
async fn is_found_out(believed: u64, real: u64, told: Told) {
    for kind in [Kind::Sliding, Kind::Fixed, Kind::Bucket] {
        for callers in [1, 100] {
            let case = format!("{believed} for {real}, {kind:?}, {told:?}, {callers} callers");
            let strict = server(real, kind, told);
            let client = client(&strict, believed);
            let storm = storm(&strict, &client, 1_000, callers).await;
            assert_eq!(storm.failed, 0, "{case}: {storm:?}");
            assert!(storm.refused <= 50, "{case}: {storm:?}");
            let ideal = SECOND * u32::try_from(1_000 / real).expect("small");
            let most = ideal * (100 + kind.patience()) / 100;
            assert!(storm.took <= most, "{case}: {storm:?}");
            assert_eq!(storm.moves, [""; 0], "{case}");
            let early = strict.audit().sent_before_retry_after();
            assert!(early.is_empty(), "{case}: {early:?}");
        }
    }
}

// Four times, ten times and twenty times the real limit.
const WRONG: [(u64, u64); 3] = [(200, 50), (100, 10), (1_000, 50)];

#[tokio::test(start_paused = true)]
async fn a_wrong_limit_is_found_out_from_refusals_alone() {
    for (believed, real) in WRONG {
        is_found_out(believed, real, Told::Nothing).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_wrong_limit_is_found_out_from_a_server_that_asks_for_waits() {
    for (believed, real) in WRONG {
        is_found_out(believed, real, Told::RetryAfter).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_wrong_limit_is_found_out_from_headers() {
    for (believed, real) in WRONG {
        for told in [Told::Ietf, Told::Plain] {
            is_found_out(believed, real, told).await;
        }
    }
}

// Fifty a second are right for ten seconds, and then only twenty are allowed.
#[tokio::test(start_paused = true)]
async fn a_limit_that_is_lowered_later_is_found_out_too() {
    for told in [Told::Nothing, Told::RetryAfter, Told::Ietf] {
        let strict = server(50, Kind::Sliding, told);
        let client = client(&strict, 50);
        let (lowered, later) = (strict.clone(), tokio::time::sleep(10 * SECOND));
        let lowering = Background::start(async move {
            later.await;
            let less = Rate::per_second(20).expect("valid");
            lowered.limit_to(vec![Quota::sliding(less)]);
        });
        let storm = storm(&strict, &client, 1_000, 100).await;
        lowering.join().await;
        assert_eq!(storm.failed, 0, "{told:?}: {storm:?}");
        assert!(storm.refused <= 50, "{told:?}: {storm:?}");
        // Ten seconds for the first half and 25 for the other.
        assert!(storm.took <= 35 * SECOND * 115 / 100, "{told:?}: {storm:?}");
    }
}

// Two hundred callers at once, ten a second, of whom the eleventh and a few more are refused: they go
// before those who had no turn yet. Connections that are made at the same instant may change places, so
// nobody is further than four from its own; at the end of the line it would be nearly two hundred.
#[tokio::test(start_paused = true)]
async fn whoever_was_refused_for_a_wrong_limit_keeps_its_turn() {
    for told in [Told::Nothing, Told::RetryAfter] {
        let strict = server(10, Kind::Sliding, told);
        let client = client(&strict, 100);
        let storm = storm(&strict, &client, 200, 200).await;
        assert_eq!(storm.failed, 0);
        assert!(storm.refused > 0, "nobody lost its turn");
        let audit = strict
            .audit()
            .only(|one| one.verdict == ArrivalVerdict::Allowed);
        let number = |path: &str| path[1..].parse::<u32>().expect("a number");
        for (place, one) in (0..).zip(audit.arrivals()) {
            let off = number(&one.path).abs_diff(place);
            assert!(off <= 4, "{told:?}: {} came as number {place}", one.path);
        }
    }
}

// The right limit with a hundred callers, answers after 5 ms and after 500: trying it costs a near
// server nothing and a far one less than a second.
#[tokio::test(start_paused = true)]
async fn a_right_limit_costs_less_than_a_second_to_try() {
    for (millis, most) in [(5, 100), (500, 900)] {
        let strict = server(50, Kind::Sliding, Told::Nothing);
        let way = Latency::Fixed(Duration::from_millis(millis));
        strict.delay(way, way);
        let client = client(&strict, 50);
        let storm = storm(&strict, &client, 500, 100).await;
        assert_eq!((storm.failed, storm.refused), (0, 0));
        // Nine windows and the way of the last calls; what is counted safely at first costs ways too.
        let ideal = 9 * SECOND;
        let lost = storm.took.saturating_sub(ideal);
        assert!(
            lost <= Duration::from_millis(most) + way_costs(millis),
            "{lost:?}"
        );
    }
}

/// Before the way is known each window lasts until its last answer.
fn way_costs(millis: u64) -> Duration {
    Duration::from_millis(2 * millis) * 3
}

// A server that refuses everything is no wrong limit. Held in Normal, so that health does not help: the
// few waves until no limit is left to lower, and then what a budget of a hundredth lets through.
#[tokio::test(start_paused = true)]
async fn a_server_that_refuses_everything_is_not_asked_again_for_ever() {
    let strict = server(1_000, Kind::Sliding, Told::Nothing);
    let refusal =
        ThrottleResponse::new(429, Duration::ZERO).with_retry_after(RetryAfterForm::Nothing);
    strict.rewrite(Script::new().rule(ScriptMatch::always(), refusal));
    let client = client(&strict, 200);
    client
        .upstream("strict")
        .expect("there")
        .force_health(None, HealthOverride::Normal);
    let storm = storm(&strict, &client, 400, 100).await;
    assert_eq!(storm.failed, 400);
    let sent = strict.audit().count();
    assert!(sent <= 440, "{sent} attempts of 400 calls");
}
