//! Servers that refuse: all the time, half the time, now and then, or because they allow less than is
//! configured.

use std::time::Duration;

use outflow::core::{HealthOverride, Share};
use outflow::{Api, Rules};
use outflow_mock::{
    ArrivalVerdict, MockApi, Quota, RetryAfterForm, Script, ScriptMatch, ThrottleResponse,
};

use super::support::{Load, World};

const SECOND: Duration = Duration::from_secs(1);

fn ten_a_second(api: &mut Api) {
    api.rules = Rules::with_limit("10/s".parse().expect("valid"));
}

/// Every form of the wait; garbage is a form too.
fn forms() -> [RetryAfterForm; 5] {
    [
        RetryAfterForm::Nothing,
        RetryAfterForm::Seconds,
        RetryAfterForm::Fraction,
        RetryAfterForm::Date,
        RetryAfterForm::Exactly("soon".into()),
    ]
}

/// How often a storm refuses.
#[derive(Clone, Copy, Debug)]
enum Force {
    Always,
    Half,
    Tenth,
}

impl Force {
    /// The most that is sent of 1,800 calls, and the least of them that is well: a storm that refuses
    /// half or all leaves little but probes, one that refuses a tenth about the speed of Throttle. How
    /// often the tenth is a probe, which ends in a longer sleep, is left to the jitter of the sleeps: 460
    /// to 870 were well in runs, so only a stall is a failure.
    const fn bounds(self) -> (usize, usize) {
        match self {
            Self::Always => (40, 0),
            Self::Half => (60, 1),
            Self::Tenth => (1_200, 100),
        }
    }

    fn script(self, refusal: &ThrottleResponse) -> Script {
        let refusing = |when: ScriptMatch| Script::new().rule(when, refusal.clone());
        match self {
            Self::Always => refusing(ScriptMatch::always()),
            Self::Half => refusing(ScriptMatch::always().by_chance(Share::percent(50), 7)),
            // Each rule counts what those before it left: nine pass, and the next is its own.
            Self::Tenth => (1..=120).fold(Script::new(), |script, nth| {
                script.rule(
                    ScriptMatch::always().numbers(9 * nth..=9 * nth),
                    refusal.clone(),
                )
            }),
        }
    }
}

// Two minutes of each storm in each form, then one of calm. The wait is a second and a quarter, so
// that every form rounds it differently and none of them is zero.
#[tokio::test(start_paused = true)]
async fn nothing_is_sent_before_its_time_in_any_storm() {
    for force in [Force::Always, Force::Half, Force::Tenth] {
        for tell in forms() {
            let world = World::near(MockApi::builder());
            let refusal = ThrottleResponse::new(429, SECOND * 5 / 4).with_retry_after(tell.clone());
            world.strict.rewrite(force.script(&refusal));
            let client = world.client(ten_a_second);
            let mut load = Load::on(&client);
            load.run(10, 120 * SECOND).await;
            world.strict.rewrite(Script::new());
            load.run(10, 60 * SECOND).await;
            let ended = load.ended().await.into_iter();
            let good = ended.filter(super::support::Ended::is_good).count();
            let audit = world.strict.audit();
            let early = audit.sent_before_retry_after();
            let told = audit.waits().len();
            let (most, least) = force.bounds();
            let seen = audit.count();
            assert!(
                seen <= most && good >= least,
                "{force:?} {tell:?}: {good} of {seen}"
            );
            assert!(early.is_empty(), "{force:?} {tell:?}: {:?}", early[0]);
            let speaks = matches!(
                tell,
                RetryAfterForm::Seconds | RetryAfterForm::Fraction | RetryAfterForm::Date
            );
            assert_eq!(told > 0, speaks, "{force:?} {tell:?}");
            assert!(audit.most_in_any_window(SECOND) <= 10, "{force:?} {tell:?}");
        }
    }
}

/// What became of the last minutes, when everything has settled.
struct Settled {
    /// Calls that the server let pass, for each second.
    passed: f64,
    /// The part of what was sent that it refused.
    refused: f64,
}

/// A client that believes in 20/s at a server that allows 10/s, asked for more than either.
async fn settled(load: impl AsyncFnOnce(&mut Load), hold: Option<HealthOverride>) -> Settled {
    let strict = MockApi::builder()
        .limit(Quota::sliding("10/s".parse().expect("valid")))
        .refusing(429, RetryAfterForm::Nothing);
    let world = World::near(strict);
    let client = world.client(|api| {
        api.rules = Rules::with_limit("20/s".parse().expect("valid"));
        api.retry.count = 0;
    });
    if let Some(hold) = hold {
        client
            .upstream("strict")
            .expect("there")
            .force_health(None, hold);
    }
    let mut calls = Load::on(&client);
    load(&mut calls).await;
    let late = world.strict.now().saturating_sub(180 * SECOND);
    let audit = world.strict.audit().only(|arrival| arrival.at >= late);
    drop(calls);
    let passed = audit.arrivals().iter();
    let passed = passed
        .filter(|one| one.verdict == ArrivalVerdict::Allowed)
        .count();
    let count = |many: usize| f64::from(u32::try_from(many).expect("small"));
    Settled {
        passed: count(passed) / 180.0,
        refused: count(audit.refused()) / count(audit.count()),
    }
}

// Ten minutes of 25 calls a second.
#[tokio::test(start_paused = true)]
async fn a_server_that_allows_less_is_found_out() {
    for hold in [Some(HealthOverride::Normal), None] {
        let settled = settled(
            async |calls: &mut Load| {
                calls.run(25, 600 * SECOND).await;
            },
            hold,
        )
        .await;
        let (passed, refused) = (settled.passed, settled.refused);
        assert!(
            (9.0..=10.0).contains(&passed) || hold.is_none(),
            "{hold:?}: {passed}"
        );
        assert!(refused <= 0.05, "{hold:?}: {refused}");
    }
}

// A hundred callers begin together, every ten seconds: each hundred takes ten seconds at 10/s.
#[tokio::test(start_paused = true)]
async fn a_crowd_finds_a_lower_limit_out_too() {
    let settled = settled(
        async |calls: &mut Load| {
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
