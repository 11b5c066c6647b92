//! Estimates of the remaining time, compared with the time that it then took.
//!
//! All worlds are those of a user who states a rate. Calls take 300 ms, as to another region and back.

mod trouble;

use std::time::Duration;

use http::Method;
use outflow::core::{Clock, CongestionLevel, HealthState, Limit};
use outflow::{Group, Route, Rules};
use outflow_bulk::{HttpCall, JobDestination, JobPlacement, JobSpec, JobSubmission, Workload};
use outflow_core::{Cost, Weight};
use outflow_mock::{Latency, MockResponse, Script, ScriptMatch};
use outflow_store::{ActionSpec, BatchPosition, ControlScope, StoreControl, TenantRule};

use super::support::{Plan, World, arrivals, get, gets, in_flight, name, rate_rule, shared, value};

const LATENCY: Duration = Duration::from_millis(300);

const SECOND: Duration = Duration::from_secs(1);

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
        self.is_within(Duration::from_secs(1))
    }

    /// Returns true if the estimate is within a tenth of the truth, or within this time of it.
    fn is_within(&self, least: Duration) -> bool {
        self.eta.abs_diff(self.truth) <= (self.truth / 10).max(least)
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

/// Runs jobs of three tenants as one action. Compares, from the first minute on, the ETA of the action, of every tenant
/// and of the metric with the end that followed, and every tenant's ETA with the action's.
async fn compare_everywhere(case: &str, world: &World, jobs: Vec<JobSpec>, least: Duration) {
    let tenants = ["a", "b", "c"];
    world.submit("all", jobs).await;
    let begun = world.time.now();
    let mut read = Vec::new();
    while world.counts().await.open() > 0 {
        tokio::time::sleep(Duration::from_millis(4_700)).await;
        let progress = world.engine.progress(&name("all")).await.expect("read").expect("known");
        let mut etas = vec![("all", progress.eta)];
        for tenant in tenants {
            let state = world.engine.congestion(&name(tenant)).await.expect("read");
            etas.push((tenant, state.and_then(|state| state.eta)));
        }
        let series = "outflow_bulk_estimate_seconds{groupId=\"a\"}";
        let shown = value(world, series).map(Duration::from_secs_f64);
        read.push((world.time.now().since(begun), etas, shown));
    }
    let ends = tenants.map(|tenant| {
        let arrived = *arrivals(&world.mock, tenant).last().expect("some");
        (tenant, arrived + LATENCY)
    });
    let end = |who: &str| {
        let own = ends.iter().filter(|(tenant, _)| who == "all" || *tenant == who);
        own.map(|(_, end)| *end).max().expect("known")
    };
    let minute = read.into_iter().filter(|(at, ..)| *at >= Duration::from_mins(1));
    let (mut compared, mut wrong) = (0, Vec::new());
    for (at, etas, shown) in minute {
        for (who, eta) in etas.iter().chain(&[("a", shown)]) {
            let truth = end(who).saturating_sub(at);
            if truth.is_zero() {
                continue;
            }
            compared += 1;
            let known = Compared {
                eta: eta.expect("an estimate"),
                truth,
            };
            // The metric counts whole seconds.
            let rounded = if *eta == shown { SECOND } else { Duration::ZERO };
            if !known.is_within(least + rounded) {
                wrong.push((at, *who, known));
            }
        }
    }
    assert!(wrong.is_empty(), "{case}: {} of {compared}: {wrong:?}", wrong.len());
    assert!(compared > 20, "{case}: too few to say");
}

// Latency between 100 and 500 ms, as in a busy hour: a limit by the second loses a part of its quota, and so the jobs
// take longer than the limit says.
#[tokio::test(start_paused = true)]
async fn every_eta_knows_what_jitter_costs() {
    let plan = Plan::with_user_defaults("30/s", LATENCY);
    let jitter = Latency::Uniform(Duration::from_millis(50), Duration::from_millis(250));
    plan.mock.delay(jitter, jitter);
    let world = plan.start().await;
    compare_everywhere("jitter", &world, three_tenants(2_000), SECOND).await;
}

// One tenant has 1/s of its own, of which jitter costs a fifth.
#[tokio::test(start_paused = true)]
async fn every_eta_knows_what_jitter_costs_a_limit_of_a_tenant() {
    let plan = Plan::with_user_defaults("10/s", LATENCY).with(|settings| {
        settings.tenants.insert(name("a"), rate_rule("1/s"));
    });
    let jitter = Latency::Uniform(Duration::from_millis(50), Duration::from_millis(250));
    plan.mock.delay(jitter, jitter);
    let world = plan.start().await;
    let jobs = [gets("a", 150), gets("b", 1_200), gets("c", 1_200)].concat();
    // Three jobs of a tenant with 0.8 a second.
    compare_everywhere("own jitter", &world, jobs, 4 * SECOND).await;
}

/// Returns GETs of a tenant from an API, below a path of its own.
fn gets_from(api: &str, tenant: &str, path: &str, count: usize) -> Vec<JobSpec> {
    let call = |number| HttpCall::new(api, Method::GET, &format!("/{tenant}/{path}/{number}"));
    (0..count)
        .map(|number| JobSpec::call(name(tenant), call(number)))
        .collect()
}

// One API with 5/s, of which a group may use 1/s, and another with 20/s. One tenant has jobs in the group and at the
// other API, which ends its jobs first; two tenants share the rest. Jitter costs every limit a part of its quota.
#[tokio::test(start_paused = true)]
async fn every_eta_knows_the_slowest_of_several_lanes() {
    let mut plan = Plan::scripted(Script::new());
    let jitter = Latency::Uniform(Duration::from_millis(25), Duration::from_millis(150));
    plan.mock.delay(jitter, jitter);
    plan.rules = Rules::with_limit("5/s".parse().expect("a rate"));
    let slow = Limit::sliding("1/s".parse().expect("a rate"));
    plan.rules.groups = vec![Group::new("slow", vec![slow])];
    plan.rules.routes = vec![Route {
        methods: Vec::new(),
        pattern: "/a/slow/**".parse().expect("a pattern"),
        group: "slow".into(),
        cost: None,
    }];
    plan.others = vec![("fast", Rules::with_limit("20/s".parse().expect("a rate")))];
    let world = plan.start().await;
    let jobs = [
        gets_from("fast", "a", "fast", 800),
        gets_from("mock", "a", "slow", 120),
        gets_from("mock", "b", "usual", 500),
        gets_from("mock", "c", "usual", 100),
    ];
    // Some jobs at 0.8/s.
    compare_everywhere("several lanes", &world, jobs.concat(), 4 * SECOND).await;
}

// Four calls in flight of three seconds each are 1.3 a second, where the limit allows ten.
#[tokio::test(start_paused = true)]
async fn an_eta_is_true_when_concurrency_binds() {
    let mut plan = Plan::with_user_defaults("10/s", Duration::from_secs(3));
    plan.rules = in_flight(4, plan.rules);
    let world = plan.start().await;
    let compared = compare(&world, gets("t", 200), Duration::from_mins(1)).await;
    // Four calls end together, every three seconds.
    let wrong: Vec<_> = compared.iter().filter(|one| !one.is_within(3 * SECOND)).collect();
    assert!(wrong.is_empty() && compared.len() > 5, "{wrong:?}");
}

// The API asks for two hours, and an action fails after one without progress: a submitter should know.
#[tokio::test(start_paused = true)]
async fn a_submission_warns_of_a_sleep_that_is_longer_than_the_timeout() {
    let world = Plan::with_user_defaults("10/s", LATENCY).start().await;
    let asks = MockResponse::status(429).header("retry-after", "7200");
    world.mock.rewrite(Script::new().rule(ScriptMatch::always(), asks));
    let submission = JobSubmission {
        action: Some(ActionSpec::new(name("a"))),
        rest: BatchPosition::Last,
        jobs: gets("t", 20),
    };
    world.engine.submit(submission).await.expect("accepted");
    assert_eq!(world.engine.timeout_warning(&name("a")).await.expect("read"), None);
    tokio::time::sleep(Duration::from_secs(5)).await;
    let warning = world.engine.timeout_warning(&name("a")).await.expect("read");
    let warning = warning.expect("a warning");
    assert!(warning.starts_with("the action takes at least 2 h 0 min"), "{warning}");
}

// 30/s for 6,000, 2,000 and 1,000 jobs: the tenants end after 300, 167 and 100 s, each faster than its present share.
#[tokio::test(start_paused = true)]
async fn every_eta_knows_that_shares_grow_when_others_are_done() {
    let world = Plan::with_user_defaults("30/s", LATENCY).start().await;
    let jobs = [gets("a", 6_000), gets("b", 2_000), gets("c", 1_000)].concat();
    compare_everywhere("unequal", &world, jobs, SECOND).await;
}

// Weights of 3, 2 and 1, and 4/s for the first alone.
#[tokio::test(start_paused = true)]
async fn every_eta_knows_weights_and_limits_of_tenants() {
    let plan = Plan::with_user_defaults("30/s", LATENCY).with(|settings| {
        for (tenant, weight) in [("b", 2), ("c", 3)] {
            let rule = TenantRule {
                weight: Weight::new(weight).expect("valid"),
                ..TenantRule::default()
            };
            settings.tenants.insert(name(tenant), rule);
        }
        settings.tenants.insert(name("a"), rate_rule("4/s"));
    });
    let world = plan.start().await;
    let jobs = [gets("a", 600), gets("b", 2_000), gets("c", 1_500)].concat();
    compare_everywhere("rules", &world, jobs, SECOND).await;
}

// Two actions of two tenants share 30/s: the second has its end within a tenth from its first instant on.
#[tokio::test(start_paused = true)]
async fn an_eta_counts_the_jobs_of_other_actions() {
    let world = Plan::with_user_defaults("30/s", LATENCY).start().await;
    world.submit("big", gets("a", 6_000)).await;
    let at_once = world.engine.progress(&name("big")).await.expect("read").expect("known");
    assert!(at_once.eta.is_some());
    let begun = world.time.wall();
    world.submit("small", gets("b", 600)).await;
    let progress = world
        .engine
        .progress(&name("small"))
        .await
        .expect("read")
        .expect("known");
    let ended = world.finished("small").await.ended.expect("over");
    let compared = Compared {
        eta: progress.eta.expect("an estimate"),
        truth: ended.since(begun),
    };
    assert!(compared.is_true(), "{compared:?}");
}

// A second action of the same tenant waits for the first one: its few jobs end last.
#[tokio::test(start_paused = true)]
async fn an_eta_counts_the_jobs_before_an_action_of_the_same_tenant() {
    let world = Plan::with_user_defaults("30/s", LATENCY).start().await;
    world.submit("first", gets("a", 6_000)).await;
    world.submit("second", gets("a", 300)).await;
    let begun = world.time.wall();
    let eta = async |action| {
        let progress = world.engine.progress(&name(action)).await.expect("read");
        progress.expect("known").eta.expect("an estimate")
    };
    let etas = [("first", eta("first").await), ("second", eta("second").await)];
    for (action, eta) in etas {
        let ended = world.finished(action).await.ended.expect("over");
        let compared = Compared {
            eta,
            truth: ended.since(begun),
        };
        assert!(compared.is_true(), "{action}: {compared:?}");
    }
}

// The API allows six of the ten a second that are configured: after the first minute the estimate knows it.
#[tokio::test(start_paused = true)]
async fn an_eta_follows_an_api_that_allows_less_than_configured() {
    let plan = Plan::with_user_defaults("10/s", LATENCY);
    plan.mock.limit_to(shared("6/s"));
    let world = plan.start().await;
    let compared = compare(&world, gets("t", 1_500), Duration::from_secs(90)).await;
    let wrong: Vec<_> = compared.iter().filter(|one| !one.is_within(3 * SECOND)).collect();
    assert!(
        wrong.is_empty() && compared.len() > 5,
        "{} of {}: {wrong:?}",
        wrong.len(),
        compared.len()
    );
}

// An outage of ten minutes: meanwhile the ETA of the tenant is that of the action, and after the recovery both are true
// again, though the last minutes were slow.
#[tokio::test(start_paused = true)]
async fn every_eta_is_true_again_after_an_outage() {
    let world = Plan::with_user_defaults("30/s", LATENCY).start().await;
    world.submit("all", gets("a", 9_000)).await;
    tokio::time::sleep(Duration::from_mins(1)).await;
    let outage = Script::new().rule(ScriptMatch::always(), MockResponse::status(503));
    world.mock.rewrite(outage);
    for _ in 0..60 {
        tokio::time::sleep(Duration::from_secs(10)).await;
        let progress = world.engine.progress(&name("all")).await.expect("read").expect("known");
        let state = world.engine.congestion(&name("a")).await.expect("read").expect("known");
        assert_eq!(progress.eta, state.eta, "one estimate");
    }
    world.mock.rewrite(Script::new());
    let is_normal = || {
        let report = world.client.upstream("mock").expect("known").report();
        report
            .health
            .iter()
            .all(|health| health.snapshot.state == HealthState::Normal)
    };
    while !is_normal() {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    let read = world.time.wall();
    let progress = world.engine.progress(&name("all")).await.expect("read").expect("known");
    let ended = world.finished("all").await.ended.expect("over");
    let compared = Compared {
        eta: progress.eta.expect("an estimate"),
        truth: ended.since(read),
    };
    assert!(compared.is_true(), "{compared:?}");
}

// Limits by second and by minute: the first bounds the last window of the second. At every instant from the first minute
// on; a wait for some units of one limit was that for the first unit, and so 54 s were 14.
#[tokio::test(start_paused = true)]
async fn an_eta_knows_every_window_of_several_limits() {
    for (limits, jobs) in [
        (&["5/s", "100/min"][..], 450),
        (&["5/s", "100/min"], 330),
        (&["10/s", "200/min", "500/h"], 480),
        (&["2/s", "30/min"], 100),
    ] {
        let mut plan = Plan::with_user_defaults(limits[0], LATENCY);
        let all = limits.iter().map(|rate| rate.parse().expect("a rate"));
        plan.rules.limits = all.map(Limit::sliding).collect();
        plan.mock
            .limit_to(limits.iter().flat_map(|rate| shared(rate)).collect());
        let jitter = Latency::Uniform(Duration::from_millis(50), Duration::from_millis(100));
        plan.mock.delay(jitter, jitter);
        let world = plan.start().await;
        let compared = compare(&world, gets("t", jobs), Duration::from_mins(1)).await;
        // Jitter costs the short limit some of its quota in the last window.
        let wrong: Vec<_> = compared.iter().filter(|one| !one.is_within(3 * SECOND)).collect();
        assert!(
            wrong.is_empty(),
            "{limits:?}: {} of {}: {wrong:?}",
            wrong.len(),
            compared.len()
        );
        assert!(compared.len() > 5, "{limits:?}: too few to say");
    }
}

// The last job waits for its second attempt: both estimates include the wait. While its action is paused, neither the
// action nor its tenant has one.
#[tokio::test(start_paused = true)]
async fn every_eta_counts_the_wait_of_a_retry_and_knows_a_pause() {
    let world = Plan::with_user_defaults("10/s", LATENCY).start().await;
    let fails = MockResponse::status(500);
    world
        .mock
        .rewrite(Script::new().rule(ScriptMatch::path("/t/28"), fails));
    world.submit("all", gets("t", 30)).await;
    loop {
        tokio::time::sleep(Duration::from_millis(10)).await;
        let counts = world.counts().await;
        assert!(counts.open() > 0, "it failed too soon: {counts:?}");
        if (counts.delayed, counts.open()) == (1, 1) {
            break;
        }
    }
    let etas = async || {
        let progress = world.engine.progress(&name("all")).await.expect("read").expect("known");
        let state = world.engine.congestion(&name("t")).await.expect("read").expect("known");
        (progress.eta, state.eta)
    };
    let read = world.time.wall();
    let (action, tenant) = etas().await;
    assert!(action.expect("an estimate") > LATENCY, "{action:?}");
    assert_eq!(action, tenant, "one estimate");
    world.mock.rewrite(Script::new());
    let ended = world.finished("all").await.ended.expect("over");
    let compared = Compared {
        eta: action.expect("an estimate"),
        truth: ended.since(read),
    };
    assert!(compared.is_true(), "{compared:?}");
    world.submit("more", gets("t", 300)).await;
    let scope = ControlScope::Action(name("more"));
    world.store().pause(&scope).await.expect("paused");
    tokio::time::sleep(Duration::from_secs(5)).await;
    let state = world.engine.congestion(&name("t")).await.expect("read").expect("known");
    assert_eq!(state.eta, None, "all its jobs are held");
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
    for eta in [state.eta.expect("an estimate"), progress.eta.expect("an estimate")] {
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
    let eta = state.eta.expect("an estimate").as_secs();
    assert!(eta.abs_diff(state.non_ready / 2) <= 1, "{eta}");
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
    assert_eq!((state.level, state.eta), (CongestionLevel::None, Some(Duration::ZERO)));
}
