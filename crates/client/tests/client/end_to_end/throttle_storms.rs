//! Servers that throttle: always, half the time, rarely, or because they allow less than
//! configured.

use std::time::Duration;

use outflow::core::{HealthOverride, Share};
use outflow::{Api, Rules};
use outflow_mock::{ArrivalVerdict, MockApi, Quota, RetryAfterForm, Script, ScriptMatch, ThrottleResponse};

use super::support::{CallLoad, TestBed};

const SECOND: Duration = Duration::from_secs(1);

fn ten_a_second(api: &mut Api) {
    api.rules = Rules::with_limit("10/s".parse().expect("valid"));
}

/// Returns every form of `Retry-After`, garbage included.
fn forms() -> [RetryAfterForm; 5] {
    [
        RetryAfterForm::Nothing,
        RetryAfterForm::Seconds,
        RetryAfterForm::Fraction,
        RetryAfterForm::Date,
        RetryAfterForm::Exactly("soon".into()),
    ]
}

/// Share of throttled requests in a storm.
#[derive(Clone, Copy, Debug)]
enum StormForce {
    Always,
    Half,
    Tenth,
}

impl StormForce {
    /// Returns the most attempts sent in the storm of 1,200 calls, and the least successes of 1,800
    /// calls. A storm of half or all leaves little but probes; the minute of calm serves its 600 calls
    /// and some that wait.
    const fn bounds(self) -> (usize, usize) {
        match self {
            Self::Always => (120, 600),
            Self::Half => (200, 450),
            Self::Tenth => (1_200, 600),
        }
    }

    fn script(self, refusal: &ThrottleResponse) -> Script {
        let refusing = |when: ScriptMatch| Script::new().rule(when, refusal.clone());
        match self {
            Self::Always => refusing(ScriptMatch::always()),
            Self::Half => refusing(ScriptMatch::always().by_chance(Share::percent(50), 7)),
            // Each rule counts the rest of those before it: nine pass, and the next is its own.
            Self::Tenth => (1..=120).fold(Script::new(), |script, nth| {
                script.rule(ScriptMatch::always().numbers(9 * nth..=9 * nth), refusal.clone())
            }),
        }
    }
}

// Two minutes of each storm in each form, then one of calm. The wait is a second and a quarter, so
// that every form rounds it differently and none to zero.
#[tokio::test(start_paused = true)]
async fn no_storm_makes_the_client_send_early() {
    for force in [StormForce::Always, StormForce::Half, StormForce::Tenth] {
        for form in forms() {
            let bed = TestBed::near(MockApi::builder());
            let refusal = ThrottleResponse::new(429, SECOND * 5 / 4).with_retry_after(form.clone());
            bed.mock.rewrite(force.script(&refusal));
            let client = bed.client(ten_a_second);
            let mut load = CallLoad::on(&client);
            load.run(10, 120 * SECOND).await;
            let stormed = bed.mock.audit().count();
            bed.mock.rewrite(Script::new());
            load.run(10, 60 * SECOND).await;
            let ended = load.ended().await.into_iter();
            let good = ended.filter(super::support::EndedCall::is_good).count();
            let audit = bed.mock.audit();
            let early = audit.sent_before_retry_after();
            let waits = audit.waits().len();
            let (most, least) = force.bounds();
            assert!(
                stormed <= most && good >= least,
                "{force:?} {form:?}: {good} good, {stormed} sent in the storm"
            );
            assert!(early.is_empty(), "{force:?} {form:?}: {:?}", early[0]);
            let speaks = matches!(
                form,
                RetryAfterForm::Seconds | RetryAfterForm::Fraction | RetryAfterForm::Date
            );
            assert_eq!(waits > 0, speaks, "{force:?} {form:?}");
            assert!(audit.most_in_any_window(SECOND) <= 10, "{force:?} {form:?}");
        }
    }
}

/// Results of the last minutes, in the steady state.
struct SteadyState {
    /// Calls that the server admitted, for each second.
    passed: f64,
    /// The throttled share of the attempts.
    refused: f64,
}

/// Runs a client that believes in 20/s against a server that allows 10/s, with more demand than
/// either.
async fn run_to_steady_state(load: impl AsyncFnOnce(&mut CallLoad), hold: Option<HealthOverride>) -> SteadyState {
    let mock = MockApi::builder()
        .limit(Quota::sliding("10/s".parse().expect("valid")))
        .refusing(429, RetryAfterForm::Nothing);
    let bed = TestBed::near(mock);
    let client = bed.client(|api| {
        api.rules = Rules::with_limit("20/s".parse().expect("valid"));
        api.retry.count = 0;
    });
    if let Some(hold) = hold {
        client.upstream("strict").expect("there").force_health(None, hold);
    }
    let mut calls = CallLoad::on(&client);
    load(&mut calls).await;
    let late = bed.mock.now().saturating_sub(180 * SECOND);
    let audit = bed.mock.audit().only(|arrival| arrival.at >= late);
    drop(calls);
    let passed = audit.arrivals().iter();
    let passed = passed.filter(|one| one.verdict == ArrivalVerdict::Allowed).count();
    let count = |many: usize| f64::from(u32::try_from(many).expect("small"));
    SteadyState {
        passed: count(passed) / 180.0,
        refused: count(audit.refused()) / count(audit.count()),
    }
}

// Ten minutes of 25 calls a second.
#[tokio::test(start_paused = true)]
async fn the_client_detects_a_lower_limit() {
    for hold in [Some(HealthOverride::Normal), None] {
        let settled = run_to_steady_state(
            async |calls: &mut CallLoad| {
                calls.run(25, 600 * SECOND).await;
            },
            hold,
        )
        .await;
        let (passed, refused) = (settled.passed, settled.refused);
        assert!((9.0..=10.0).contains(&passed) || hold.is_none(), "{hold:?}: {passed}");
        assert!(refused <= 0.05, "{hold:?}: {refused}");
    }
}

// A hundred callers start together, every ten seconds: each hundred takes ten seconds at 10/s.
#[tokio::test(start_paused = true)]
async fn bursts_of_callers_detect_a_lower_limit() {
    let settled = run_to_steady_state(
        async |calls: &mut CallLoad| {
            for _ in 0..60 {
                for _ in 0..100 {
                    calls.start("/");
                }
                tokio::time::sleep(10 * SECOND).await;
            }
        },
        Some(HealthOverride::Normal),
    )
    .await;
    let (passed, refused) = (settled.passed, settled.refused);
    assert!((9.0..=10.0).contains(&passed), "{passed}");
    assert!(refused <= 0.05, "{refused}");
}
