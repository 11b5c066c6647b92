//! Laws of claims: the order of tenants, and when a job may start.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use outflow_core::{Cost, Nanos, Priority, Weight};
use outflow_store::{
    ActionStore, AllowAll, ClaimDecision, ClaimFilter, ClaimRequest, ClaimedJob, JobQueue, NewJob, NextJob,
    StoreControl, SubmitBatch, TenantRule, TenantStore,
};

use super::{StoreWorld, batch, claim, claim_one, claim_request, done, ids, job, jobs, name, settle_all, submit};

/// Counts the jobs of each tenant.
pub(crate) fn shares(jobs: &[ClaimedJob]) -> BTreeMap<String, usize> {
    let mut shares = BTreeMap::new();
    for job in jobs {
        *shares.entry(job.tenant.to_string()).or_default() += 1;
    }
    shares
}

fn rule(weight: u32, priority: Priority) -> TenantRule {
    TenantRule {
        weight: Weight::new(weight).expect("a weight"),
        priority,
        ..TenantRule::default()
    }
}

// 300 jobs are there when 3 come: a newcomer waits for at most one turn of each other tenant.
pub(crate) async fn tenants_take_turns_with_any_backlogs(world: &impl StoreWorld) {
    let store = world.store();
    submit(store, jobs("large", 300)).await;
    assert_eq!(claim(store, 10).await.len(), 10);
    submit(store, jobs("small", 3)).await;
    let next = claim(store, 6).await;
    assert_eq!(shares(&next)["small"], 3, "{:?}", ids(&next));
}

// With this many jobs, a place counted from the first job would be far behind.
pub(crate) async fn thousands_of_jobs_do_not_delay_ten_of_another_tenant(world: &impl StoreWorld) {
    a_flood_delays_no_other_tenant(world, 5_000).await;
}

/// Three tenants share the jobs and have done a good part of them; a fourth comes with ten. It
/// waits for one turn of each other tenant: its first job is among the next four, and each of its
/// other nine is among the four after the one before.
pub(crate) async fn a_flood_delays_no_other_tenant(world: &impl StoreWorld, jobs: u32) {
    let store = world.store();
    let large = ["large-a", "large-b", "large-c"];
    for (number, chunk) in (0..jobs / 1_000).enumerate() {
        let tenant = large[number % large.len()];
        let flood = (0..1_000).map(|of| job(tenant, &format!("{chunk}-{of}")));
        submit(store, flood.collect()).await;
    }
    for _ in 0..4 {
        assert_eq!(claim(store, 500).await.len(), 500);
    }
    let ten = (0..10).map(|of| job("small", &format!("small-{of}")));
    submit(store, ten.collect()).await;
    let mut slots = Vec::new();
    for _ in 0..4 {
        slots.push(claim_one(store).await);
    }
    let first = slots.iter().position(|job| job.tenant == name("small"));
    let first = first.expect("within as many slots as tenants are active") + 1;
    slots.extend(claim(store, 9 * 4).await);
    let places = slots.iter().zip(1_usize..);
    let places = places.filter(|(job, _)| job.tenant == name("small"));
    let places: Vec<usize> = places.map(|(_, place)| place).collect();
    assert_eq!(places.len(), 10, "{places:?}");
    for (turn, place) in places.iter().enumerate() {
        assert!(*place <= first + turn * 4, "turn {turn} of {places:?}");
    }
}

// 30 turns at 2 : 1.
pub(crate) async fn weights_divide_a_lane(world: &impl StoreWorld) {
    let store = world.store();
    let rules = [("double", 2), ("single", 1)];
    for (tenant, weight) in rules {
        let rule = rule(weight, Priority::Normal);
        store.set_rule(&name(tenant), rule).await.expect("set");
    }
    for (tenant, _) in rules {
        submit(store, jobs(tenant, 60)).await;
    }
    let shares = shares(&claim(store, 30).await);
    assert_eq!((shares["double"], shares["single"]), (20, 10));
}

// 50 turns at 4 : 1; one turn of each may be incomplete.
pub(crate) async fn a_high_priority_tenant_gets_four_times_the_turns(world: &impl StoreWorld) {
    let store = world.store();
    let rule = rule(1, Priority::High);
    store.set_rule(&name("high"), rule).await.expect("set");
    for tenant in ["high", "usual"] {
        submit(store, jobs(tenant, 60)).await;
    }
    let shares = shares(&claim(store, 50).await);
    assert!(shares["high"].abs_diff(40) <= 1, "{shares:?}");
}

// 42 turns are two rounds of 16 + 4 + 1.
pub(crate) async fn classes_of_one_tenant_share_sixteen_to_four_to_one(world: &impl StoreWorld) {
    let store = world.store();
    for (class, text) in [
        (Priority::Low, "low"),
        (Priority::Normal, "normal"),
        (Priority::High, "high"),
    ] {
        let of = |number| NewJob {
            priority: class,
            ..job("a", &format!("{text}-{number}"))
        };
        submit(store, (0..50).map(of).collect()).await;
    }
    let jobs = claim(store, 42).await;
    let of = |class| jobs.iter().filter(|job| job.priority == class).count();
    let seen = [of(Priority::High), of(Priority::Normal), of(Priority::Low)];
    for (seen, fair) in seen.into_iter().zip([32_usize, 8, 2]) {
        assert!(seen.abs_diff(fair) <= 1, "{seen} of {fair}");
    }
}

// 300 is more than any store reads at once; batches of 70 do not fit its pages either.
pub(crate) async fn a_long_queue_keeps_its_order(world: &impl StoreWorld) {
    let store = world.store();
    let all = jobs("a", 300);
    for batch in all.chunks(70) {
        submit(store, batch.to_vec()).await;
    }
    let mut seen = Vec::new();
    while seen.len() < all.len() {
        let taken = claim(store, 41).await;
        assert!(!taken.is_empty(), "after {}", seen.len());
        seen.extend(ids(&taken));
        settle_all(store, &taken, done()).await;
    }
    let expected: Vec<String> = (0..300).map(|number| format!("a-{number}")).collect();
    assert_eq!(seen, expected);
}

pub(crate) async fn lanes_are_independent(world: &impl StoreWorld) {
    let store = world.store();
    let mut other = job("a", "text");
    other.lane = name("text");
    submit(store, vec![other, job("a", "mail")]).await;
    assert_eq!(ids(&claim(store, 9).await), ["mail"]);
    let mut request = claim_request(9);
    request.lane = name("text");
    let claims = store.claim(request, &mut outflow_store::AllowAll).await;
    assert_eq!(ids(&claims.expect("claimed").jobs), ["text"]);
    let mut request = super::claim_request(9);
    request.lane = name("unknown");
    let claims = store.claim(request, &mut outflow_store::AllowAll).await;
    assert!(claims.expect("claimed").jobs.is_empty());
}

pub(crate) async fn a_claim_carries_every_submitted_field(world: &impl StoreWorld) {
    let store = world.store();
    let deadline = world.wall_time().saturating_add(Duration::from_hours(1));
    let sent = NewJob {
        cost: Cost::new(7),
        priority: Priority::High,
        deadline: Some(deadline),
        payload: vec![0, 255, 1].into(),
        ..job("a", "x")
    };
    store.submit(batch("act", vec![sent])).await.expect("taken");
    let got = claim_one(store).await;
    assert_eq!((got.id, got.tenant), (name("x"), name("a")));
    assert_eq!(got.action, Some(name("act")));
    assert_eq!((got.cost, got.priority), (Cost::new(7), Priority::High));
    let millis = |at: outflow_core::WallTime| at.as_duration().as_millis();
    assert_eq!(got.deadline.map(millis), Some(millis(deadline)));
    assert_eq!((got.attempt, got.retries, got.throttles), (1, 0, 0));
    assert_eq!(got.payload, vec![0, 255, 1]);
}

/// Filter that returns given decisions and records the requests.
struct ScriptedFilter {
    answers: Vec<ClaimDecision>,
    asked: Vec<(String, u64)>,
}

impl ScriptedFilter {
    fn new(answers: &[ClaimDecision]) -> Self {
        let answers = answers.iter().rev().copied().collect();
        let asked = Vec::new();
        Self { answers, asked }
    }
}

impl ClaimFilter for ScriptedFilter {
    fn decide(&mut self, head: &NextJob<'_>) -> ClaimDecision {
        self.asked.push((head.tenant.to_string(), head.cost.units()));
        self.answers.pop().unwrap_or(ClaimDecision::Stop)
    }
}

pub(crate) async fn the_filter_is_asked_in_order_and_obeyed(world: &impl StoreWorld) {
    let store = world.store();
    let mut costly = jobs("a", 2);
    costly[1].cost = Cost::new(3);
    submit(store, costly).await;
    let mut gate = ScriptedFilter::new(&[ClaimDecision::Take, ClaimDecision::Stop]);
    let claims = store.claim(claim_request(9), &mut gate).await.expect("claimed");
    assert_eq!(ids(&claims.jobs), ["a-0"]);
    assert_eq!(gate.asked, [("a".to_owned(), 1), ("a".to_owned(), 3)]);
    assert_eq!(ids(&claim(store, 9).await), ["a-1"], "it stayed first");
}

// Parked far in the store's time: only the others start.
pub(crate) async fn a_parked_tenant_lets_others_pass_and_returns_in_time(world: &impl StoreWorld) {
    let store = world.store();
    submit(store, jobs("a", 1)).await;
    submit(store, jobs("b", 1)).await;
    let far = Nanos::MAX;
    let mut gate = ScriptedFilter::new(&[ClaimDecision::SkipUntil(far), ClaimDecision::Take, ClaimDecision::Stop]);
    let claims = store.claim(claim_request(9), &mut gate).await.expect("claimed");
    assert_eq!(ids(&claims.jobs), ["b-0"]);
    assert!(claims.next.is_some(), "a tenant returns");
}

// 10 units: not after 5, but after 15, and in between the tenant's other jobs start.
pub(crate) async fn a_job_does_not_start_before_its_time(world: &impl StoreWorld) {
    let store = world.store();
    let unit = world.unit();
    let mut later = job("a", "later");
    later.not_before = Some(world.wall_time().saturating_add(unit * 10));
    submit(store, vec![later, job("a", "now")]).await;
    let counts = store.job_counts().await.expect("counted");
    assert_eq!((counts.queued, counts.delayed), (2, 1));
    assert_eq!(ids(&claim(store, 9).await), ["now"]);
    world.advance(unit * 5).await;
    let none = store.claim(claim_request(9), &mut outflow_store::AllowAll).await;
    let none = none.expect("claimed");
    assert!(none.jobs.is_empty());
    assert!(none.next.expect("it is known") <= unit * 5 + unit / 2);
    world.advance(unit * 10).await;
    assert_eq!(ids(&claim(store, 9).await), ["later"]);
}

pub(crate) async fn a_job_past_its_deadline_ends_as_expired(world: &impl StoreWorld) {
    let store = world.store();
    let unit = world.unit();
    let mut hurried = jobs("a", 2);
    hurried[0].deadline = Some(world.wall_time().saturating_add(unit * 5));
    store.submit(batch("act", hurried)).await.expect("taken");
    world.advance(unit * 10).await;
    let claims = store.claim(claim_request(9), &mut outflow_store::AllowAll).await;
    let claims = claims.expect("claimed");
    assert_eq!((ids(&claims.jobs), claims.expired), (vec!["a-1".into()], 1));
    let counts = store.job_counts().await.expect("counted");
    assert_eq!((counts.cancelled, counts.in_flight, counts.queued), (1, 1, 0));
    let outcomes = store.outcomes(&name("act"), 0, 9).await.expect("read");
    assert_eq!(outcomes[0].ended, outflow_store::JobStatus::Expired);
}

pub(crate) async fn no_tenant_exceeds_its_in_flight_bound(world: &impl StoreWorld) {
    let store = world.store();
    let bounded = TenantRule {
        in_flight: Some(2),
        ..TenantRule::default()
    };
    store.set_rule(&name("a"), bounded).await.expect("set");
    submit(store, jobs("a", 5)).await;
    submit(store, jobs("b", 2)).await;
    let first = claim(store, 9).await;
    let expected = BTreeMap::from([("a".to_owned(), 2), ("b".to_owned(), 2)]);
    assert_eq!(shares(&first), expected);
    assert!(claim(store, 9).await.is_empty());
    let of_a: Vec<ClaimedJob> = first.into_iter().filter(|job| job.tenant == name("a")).collect();
    settle_all(store, &of_a[..1], done()).await;
    assert_eq!(ids(&claim(store, 9).await), ["a-2"]);
}

pub(crate) async fn claim_numbers_are_unique(world: &impl StoreWorld) {
    let store = world.store();
    let mut seen = HashSet::new();
    store.submit(SubmitBatch::from_jobs(jobs("a", 3))).await.expect("taken");
    for _ in 0..3 {
        let jobs = claim(store, 9).await;
        assert_eq!(jobs.len(), 3);
        assert!(jobs.iter().all(|job| seen.insert(job.token.claim)));
        settle_all(store, &jobs, outflow_store::JobEnd::Returned).await;
    }
}

// One holds permits for jobs that cost one, and then for one that costs four. The next job of another cost ends the
// claim, and is named.
pub(crate) async fn a_claim_for_one_cost_hands_out_no_other(world: &impl StoreWorld) {
    let store = world.store();
    let costs = [1, 1, 4, 1];
    let costly = costs.iter().enumerate().map(|(number, cost)| NewJob {
        cost: Cost::new(*cost),
        ..job("a", &format!("a-{number}"))
    });
    submit(store, costly.collect()).await;
    let request = |cost, max| ClaimRequest {
        cost: Some(Cost::new(cost)),
        ..claim_request(max)
    };
    let of = async |cost, max| {
        let claims = store.claim(request(cost, max), &mut AllowAll).await.expect("claimed");
        (ids(&claims.jobs).len(), claims.other_cost.map(Cost::units))
    };
    assert_eq!(of(4, 5).await, (0, Some(1)));
    assert_eq!(of(1, 5).await, (2, Some(4)));
    assert_eq!(of(4, 5).await, (1, Some(1)));
    assert_eq!(of(1, 1).await, (1, None));
    assert_eq!(of(2, 5).await, (0, None), "nothing is left");
    // Without costs in the lane the same holds.
    submit(store, jobs("b", 2)).await;
    assert_eq!(of(3, 5).await, (0, Some(1)));
    assert_eq!(of(1, 5).await, (2, None));
}
