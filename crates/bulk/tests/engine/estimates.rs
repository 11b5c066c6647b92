//! Estimates of the remaining time, compared with the time that it then took.
//!
//! All worlds are those of a user who states a rate. Calls take 300 ms, as to another region and back.

use std::time::Duration;

use outflow::core::{Clock, CongestionLevel};
use outflow_bulk::{JobDestination, JobPlacement, JobSpec, JobSubmission, Workload};
use outflow_core::Cost;
use outflow_store::{ActionSpec, BatchPosition};

use super::support::{Plan, World, get, gets, name, rate_rule, value};

const LATENCY: Duration = Duration::from_millis(300);

/// Three tenants with as many jobs each.
fn three_tenants(each: usize) -> Vec<JobSpec> {
    ["a", "b", "c"].iter().flat_map(|tenant| gets(tenant, each)).collect()
}

/// An estimate, and the time that the rest then took.
#[derive(Debug)]
struct Compared {
    eta: Duration,
    truth: Duration,
}

impl Compared {
    /// Returns true if the estimate is within a tenth of the truth, or within one second of it.
    fn is_true(&self) -> bool {
        self.eta.abs_diff(self.truth) <= (self.truth / 10).max(Duration::from_secs(1))
    }
}

/// Runs jobs as one action, and compares its estimates from an instant on. They are read every 4.7 s, which meets
/// every part of a window.
async fn compare(world: &World, jobs: Vec<JobSpec>, from: Duration) -> Vec<Compared> {
    let begun = world.time.wall();
    world.submit("all", jobs).await;
    let mut estimates = Vec::new();
    while world.counts().await.open() > 0 {
        let progress = world.engine.progress(&name("all")).await.expect("read").expect("known");
        estimates.push((world.time.wall(), progress.eta));
        tokio::time::sleep(Duration::from_millis(4_700)).await;
    }
    let ended = world.finished("all").await.ended.expect("over");
    let later = estimates.into_iter().filter(|(at, _)| at.since(begun) >= from);
    let compared = later.map(|(at, eta)| Compared {
        eta: eta.expect("an estimate"),
        truth: ended.since(at),
    });
    compared.collect()
}

fn assert_true(case: &str, compared: &[Compared]) {
    let wrong: Vec<_> = compared.iter().filter(|one| !one.is_true()).collect();
    assert!(
        wrong.is_empty(),
        "{case}: {} of {}: {wrong:?}",
        wrong.len(),
        compared.len()
    );
    assert!(compared.len() > 5, "{case}: too few to say");
}

// 9,000 jobs at 30 a second take five minutes. The limits alone give the estimate before the first job ended.
#[tokio::test(start_paused = true)]
async fn an_eta_is_within_a_tenth_of_the_truth_from_the_first_instant_on() {
    let world = Plan::with_user_defaults("30/s", LATENCY).start().await;
    assert_true("30/s", &compare(&world, three_tenants(3_000), Duration::ZERO).await);
}

// One of three tenants has four a second: its 2,000 jobs take 500 s, those of the others 154 s.
#[tokio::test(start_paused = true)]
async fn an_eta_follows_the_tenant_with_the_lowest_limit() {
    let plan = Plan::with_user_defaults("30/s", LATENCY).with(|settings| {
        settings.tenants.insert(name("a"), rate_rule("4/s"));
    });
    let world = plan.start().await;
    assert_true("own 4/s", &compare(&world, three_tenants(2_000), Duration::ZERO).await);
}

// 600 a minute, for all or for each: every minute begins with a burst, and nothing happens in the rest of it.
#[tokio::test(start_paused = true)]
async fn an_eta_is_true_in_every_part_of_a_minute_window() {
    let world = Plan::with_user_defaults("600/min", LATENCY).start().await;
    assert_true("600/min", &compare(&world, three_tenants(1_500), Duration::ZERO).await);
    let plan = Plan::with_user_defaults("100/s", LATENCY).with(|settings| {
        settings.tenant = rate_rule("600/min");
    });
    let world = plan.start().await;
    assert_true(
        "600/min each",
        &compare(&world, three_tenants(3_000), Duration::ZERO).await,
    );
}

// A dry run of 100 jobs and of 3,000, at a limit by second and by minute, and for one tenant with its own limit.
#[tokio::test(start_paused = true)]
async fn a_dry_run_promises_what_a_run_then_takes() {
    for (rate, own, jobs) in [
        ("10/s", None, 100),
        ("30/s", None, 3_000),
        ("600/min", None, 3_000),
        ("100/s", Some("4/s"), 300),
    ] {
        let plan = Plan::with_user_defaults(rate, LATENCY).with(|settings| {
            settings.tenant.rate = own.map(|own| own.parse().expect("a rate"));
        });
        let world = plan.start().await;
        let mut workload = Workload::default();
        let placement = JobPlacement {
            lane: name("mock"),
            cost: Cost::ONE,
        };
        (0..jobs).for_each(|_| workload.add(&name("t"), &placement, None));
        let promised = workload.expected_time(&world.client, &world.engine.settings(), LATENCY);
        let begun = world.time.wall();
        world.submit("all", gets("t", jobs)).await;
        let ended = world.finished("all").await.ended.expect("over");
        let compared = Compared {
            eta: promised,
            truth: ended.since(begun),
        };
        let tenth = compared.truth / 10;
        assert!(
            compared.eta.abs_diff(compared.truth) <= tenth,
            "{rate}, {own:?}: {compared:?}"
        );
    }
}

// The row of the issue: 4,897 jobs at ten a second. Nothing is set but the rate; the global rate is 10,000/s.
#[tokio::test(start_paused = true)]
async fn level_estimate_and_destination_come_from_the_limit_that_binds() {
    let world = Plan::with_user_defaults("10/s", LATENCY).start().await;
    let submission = JobSubmission {
        action: Some(ActionSpec::new(name("all"))),
        rest: BatchPosition::Last,
        jobs: gets("t", 4_897),
    };
    let placed = world.engine.submit(submission).await.expect("accepted");
    let ready = placed.iter().filter(|one| one.destination == JobDestination::Ready);
    assert_eq!(ready.count(), 10, "a second's worth");
    let JobDestination::NonReady { reason, backoff } = &placed[4_896].destination else {
        panic!("{:?}", placed[4_896]);
    };
    assert_eq!(
        reason,
        "rate limited (global 4897/10000, group 4897/10, congestion CRITICAL)"
    );
    assert_eq!(backoff.as_secs(), 120, "the longest wait of the formula");
    let state = world.engine.congestion(&name("t")).await.expect("read").expect("known");
    assert_eq!((state.speed, state.level), (10, CongestionLevel::Critical));
    let progress = world.engine.progress(&name("all")).await.expect("read").expect("known");
    tokio::time::sleep(Duration::from_secs(6)).await;
    let series = "bulk_action_congestion_level{groupId=\"t\",level=\"CRITICAL\"}";
    assert_eq!(value(&world, series), Some(1.0));
    let shown = value(&world, "outflow_bulk_estimate_seconds{groupId=\"t\"}").expect("shown");
    assert!((480.0..490.0).contains(&shown), "{shown}");
    let begun = world.time.wall();
    let ended = world.finished("all").await.ended.expect("over");
    let truth = ended.since(begun) + Duration::from_secs(6);
    for eta in [state.estimate, progress.eta.expect("an estimate")] {
        assert!(Compared { eta, truth }.is_true(), "{eta:?} of {truth:?}");
    }
}

// Ten a second for two tenants are five each, whatever the global rate is; one of them has two of its own.
#[tokio::test(start_paused = true)]
async fn the_speed_is_the_least_of_own_limit_and_shares() {
    let plan = Plan::with_user_defaults("10/s", LATENCY).with(|settings| {
        settings.tenants.insert(name("b"), rate_rule("2/s"));
    });
    let world = plan.start().await;
    world.submit("all", [gets("a", 100), gets("b", 100)].concat()).await;
    let speed = async |tenant| {
        let state = world.engine.congestion(&name(tenant)).await.expect("read");
        state.expect("known").speed
    };
    assert_eq!((speed("a").await, speed("b").await), (5, 2));
    let mut changed = (*world.engine.settings()).clone();
    changed.global_rate = 6;
    world.engine.reconfigure(changed).await.expect("reconfigured");
    assert_eq!((speed("a").await, speed("b").await), (3, 2));
}

// Costs count: ten units a second are two jobs of five.
#[tokio::test(start_paused = true)]
async fn the_speed_counts_the_cost_of_jobs() {
    let world = Plan::with_user_defaults("10/s", LATENCY).start().await;
    let mut jobs = gets("t", 40);
    for job in &mut jobs {
        job.cost = Some(Cost::new(5));
    }
    world.submit("all", jobs).await;
    let state = world.engine.congestion(&name("t")).await.expect("read").expect("known");
    assert_eq!(state.speed, 2);
    assert_eq!(state.estimate.as_secs(), state.non_ready.div_ceil(2));
}

// A sample a second under the default scheduler, from two engines on one store: as many as seconds.
#[tokio::test(start_paused = true)]
async fn engines_of_one_store_take_one_sample_per_interval() {
    let world = Plan::with_user_defaults("10/s", LATENCY).start().await;
    let _other = world.another().await;
    world.submit("all", gets("t", 600)).await;
    tokio::time::sleep(Duration::from_millis(20_500)).await;
    let history = world.engine.congestion_history(&name("t"), 100).await.expect("read");
    assert!((19..=21).contains(&history.len()), "{}", history.len());
    assert!(history.iter().all(|one| one.speed == 10), "{history:?}");
    assert!(history.is_sorted_by(|one, next| one.non_ready > next.non_ready && one.backoff >= next.backoff));
    let last = history.last().expect("some");
    assert_eq!(last.backoff.as_secs(), 1 + last.non_ready / 10);
}

#[tokio::test(start_paused = true)]
async fn a_tenant_without_waiting_jobs_is_not_congested() {
    let world = Plan::with_user_defaults("100/s", LATENCY).start().await;
    world.submit("all", vec![get("t", 0)]).await;
    world.finished("all").await;
    let state = world.engine.congestion(&name("t")).await.expect("read").expect("known");
    assert_eq!((state.level, state.estimate), (CongestionLevel::None, Duration::ZERO));
}
