//! Laws of rules: a tenant's own rule, or the default one.

use outflow_core::Weight;
use outflow_store::{ClaimedJob, ControlScope, JobStore, NewJob, StoreControl, TenantReport, TenantRule, TenantStore};

use super::claim::shares;
use super::{StoreWorld, claim, done, jobs, name, settle_all, submit};

fn weighing(weight: u32) -> TenantRule {
    TenantRule {
        weight: Weight::new(weight).expect("a weight"),
        ..TenantRule::default()
    }
}

fn bounded(in_flight: u32) -> TenantRule {
    TenantRule {
        in_flight: Some(in_flight),
        ..TenantRule::default()
    }
}

/// Makes jobs without names: a store may have a faster path for them.
fn unnamed(tenant: &str, count: u32) -> Vec<NewJob> {
    let mut jobs = jobs(tenant, count);
    for job in &mut jobs {
        job.id = None;
    }
    jobs
}

async fn report(store: &impl JobStore, tenant: &str) -> TenantReport {
    let report = store.tenant(&name(tenant)).await.expect("read");
    report.expect("known")
}

fn jobs_of_tenant(jobs: &[ClaimedJob], tenant: &str) -> Vec<ClaimedJob> {
    let own = jobs.iter().filter(|job| job.tenant == name(tenant));
    own.cloned().collect()
}

// 2 each, and one more for each that ends.
pub(crate) async fn the_default_bound_applies_without_an_own_rule(world: &impl StoreWorld) {
    let store = world.store();
    store.set_default_rule(bounded(2)).await.expect("set");
    submit(store, unnamed("a", 5)).await;
    submit(store, unnamed("b", 5)).await;
    let first = claim(store, 9).await;
    assert_eq!(
        (jobs_of_tenant(&first, "a").len(), jobs_of_tenant(&first, "b").len()),
        (2, 2)
    );
    assert!(claim(store, 9).await.is_empty());
    settle_all(store, &jobs_of_tenant(&first, "a")[..1], done()).await;
    let next = claim(store, 9).await;
    assert_eq!(shares(&next), [("a".to_owned(), 1)].into());
    settle_all(store, &next, outflow_store::JobEnd::Returned).await;
    assert_eq!(claim(store, 9).await.len(), 1);
    assert_eq!(store.audit().await.expect("counted"), 0);
}

// 3 are in flight when 1 may be; when 4 may be, one more starts, though nothing has ended; without
// a bound, all do.
pub(crate) async fn the_default_bound_applies_to_waiting_jobs(world: &impl StoreWorld) {
    let store = world.store();
    submit(store, unnamed("a", 9)).await;
    let first = claim(store, 3).await;
    store.set_default_rule(bounded(1)).await.expect("set");
    assert!(claim(store, 9).await.is_empty());
    settle_all(store, &first[..2], done()).await;
    assert!(claim(store, 9).await.is_empty(), "one is still in flight");
    settle_all(store, &first[2..], done()).await;
    assert_eq!(claim(store, 9).await.len(), 1);
    assert!(claim(store, 9).await.is_empty());
    store.set_default_rule(bounded(2)).await.expect("set");
    assert_eq!(claim(store, 9).await.len(), 1);
    assert!(claim(store, 9).await.is_empty());
    store.set_default_rule(TenantRule::default()).await.expect("set");
    assert_eq!(claim(store, 9).await.len(), 4);
}

// 40 turns at 3 : 1, of jobs submitted before the rule; then at 1 : 1, one of each begun.
pub(crate) async fn the_default_weight_counts_against_an_own_one(world: &impl StoreWorld) {
    let store = world.store();
    for tenant in ["own", "usual"] {
        submit(store, unnamed(tenant, 90)).await;
    }
    store.set_default_rule(weighing(3)).await.expect("set");
    let own = store.set_rule(&name("own"), weighing(1)).await;
    own.expect("set");
    let shared = shares(&claim(store, 40).await);
    assert!(shared["usual"].abs_diff(30) <= 1, "{shared:?}");
    store.set_default_rule(weighing(1)).await.expect("set");
    let shared = shares(&claim(store, 40).await);
    assert!(shared["usual"].abs_diff(20) <= 2, "{shared:?}");
}

pub(crate) async fn an_own_rule_wins_in_any_order(world: &impl StoreWorld) {
    let store = world.store();
    store.set_rule(&name("a"), bounded(4)).await.expect("set");
    store.set_default_rule(bounded(1)).await.expect("set");
    store.set_rule(&name("b"), bounded(3)).await.expect("set");
    for tenant in ["a", "b", "c"] {
        submit(store, unnamed(tenant, 5)).await;
    }
    let expected = [("a", 4), ("b", 3), ("c", 1)].map(|(tenant, many)| (tenant.to_owned(), many));
    assert_eq!(shares(&claim(store, 15).await), expected.into());
    let free = store.set_rule(&name("a"), TenantRule::default()).await;
    free.expect("set");
    assert_eq!(claim(store, 15).await.len(), 1, "no bound is a rule, too");
    for (tenant, ruled) in [("a", true), ("b", true), ("c", false)] {
        assert_eq!(report(store, tenant).await.ruled, ruled, "{tenant}");
    }
    assert_eq!(report(store, "c").await.rule, bounded(1));
}

pub(crate) async fn a_removed_rule_gives_way_to_the_default(world: &impl StoreWorld) {
    let store = world.store();
    store.set_default_rule(bounded(3)).await.expect("set");
    store.set_rule(&name("a"), bounded(1)).await.expect("set");
    submit(store, unnamed("a", 5)).await;
    assert_eq!(claim(store, 9).await.len(), 1);
    store.remove_rule(&name("a")).await.expect("taken away");
    let served = report(store, "a").await;
    assert_eq!((served.rule, served.ruled), (bounded(3), false));
    assert_eq!(claim(store, 9).await.len(), 2);
    store.set_default_rule(bounded(4)).await.expect("set");
    assert_eq!(report(store, "a").await.rule, bounded(4), "as all others");
    assert_eq!(claim(store, 9).await.len(), 1);
    store.remove_rule(&name("unknown")).await.expect("nothing to do");
    assert_eq!(store.tenant(&name("unknown")).await.expect("read"), None);
}

// A pause is no rule: afterwards the default rule still applies.
pub(crate) async fn a_rule_is_kept_for_a_tenant_without_jobs(world: &impl StoreWorld) {
    let store = world.store();
    store.set_rule(&name("a"), weighing(5)).await.expect("set");
    let stopped = ControlScope::Tenant(name("b"));
    store.pause(&stopped).await.expect("paused");
    store.set_default_rule(bounded(1)).await.expect("set");
    store.collect_garbage(world.wall_time()).await.expect("tidied");
    let served = report(store, "a").await;
    assert_eq!((served.rule, served.ruled), (weighing(5), true));
    let waits = report(store, "b").await;
    assert_eq!((waits.rule, waits.ruled), (bounded(1), false));
    assert!(waits.paused && !report(store, "a").await.paused);
    submit(store, unnamed("b", 3)).await;
    assert!(claim(store, 9).await.is_empty());
    store.resume(&stopped).await.expect("resumed");
    assert_eq!(claim(store, 9).await.len(), 1);
    submit(store, unnamed("a", 2)).await;
    assert_eq!(claim(store, 9).await.len(), 2, "its own rule has no bound");
}
