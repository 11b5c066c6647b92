//! Laws of counts.

use std::time::Duration;

use outflow_store::{JobEnd, JobQueue, PageRequest, StoreControl, TenantRule, TenantStore};

use super::{StoreWorld, claim, done, job, jobs, name, settle, settle_all, submit};
use crate::support::job_ends::different_ends;

// One job in each state, and one more that stays claimed.
pub(crate) async fn every_job_is_in_exactly_one_state(world: &impl StoreWorld) {
    let store = world.store();
    submit(store, jobs("a", 9)).await;
    let taken = claim(store, 7).await;
    let ends = [done()].into_iter().chain(different_ends());
    for (job, end) in taken.iter().zip(ends) {
        settle(store, job, end).await;
    }
    let counts = store.job_counts().await.expect("counted");
    assert_eq!((counts.done, counts.dead, counts.in_flight), (1, 1, 2));
    assert_eq!((counts.queued, counts.delayed, counts.non_ready), (5, 1, 1));
    assert_eq!(counts.submitted(), 9);
    assert_eq!(store.audit().await.expect("counted"), 0);
    let report = store.tenant(&name("a")).await.expect("read");
    assert_eq!(report.expect("known").counts, counts);
}

pub(crate) async fn a_tenant_is_active_while_it_has_work(world: &impl StoreWorld) {
    let store = world.store();
    assert_eq!(store.active_tenants().await.expect("counted"), 0);
    submit(store, jobs("a", 1)).await;
    submit(store, jobs("b", 1)).await;
    assert_eq!(store.active_tenants().await.expect("counted"), 2);
    let taken = claim(store, 9).await;
    assert_eq!(store.active_tenants().await.expect("counted"), 2, "in flight");
    settle_all(store, &taken[..1], done()).await;
    assert_eq!(store.active_tenants().await.expect("counted"), 1);
    let end = JobEnd::Retry {
        after: Duration::from_hours(1),
        message: "no".to_owned(),
        result: None,
    };
    settle_all(store, &taken[1..], end).await;
    assert_eq!(store.active_tenants().await.expect("counted"), 1, "it waits");
}

// Two are done before the tenant becomes idle, and one comes after that. The counts of all tenants
// continue.
pub(crate) async fn an_idle_tenant_restarts_its_counts_with_new_work(world: &impl StoreWorld) {
    let store = world.store();
    let counts = async || {
        let report = store.tenant(&name("a")).await.expect("read");
        let counts = report.expect("known").counts;
        (counts.done, counts.queued)
    };
    assert_eq!(store.tenant(&name("a")).await.expect("read"), None);
    submit(store, jobs("a", 2)).await;
    let taken = claim(store, 2).await;
    settle_all(store, &taken, done()).await;
    assert_eq!(counts().await, (2, 0), "as long as it has no other work");
    submit(store, vec![job("a", "later")]).await;
    assert_eq!(counts().await, (0, 1));
    let counts = store.job_counts().await.expect("counted");
    assert_eq!((counts.done, counts.queued), (2, 1));
    assert_eq!(store.audit().await.expect("counted"), 0);
    let ruled = store.set_rule(&name("z"), TenantRule::default()).await;
    ruled.expect("ruled");
    let known = store.tenants(PageRequest::default()).await.expect("read");
    let known: Vec<_> = known.into_iter().map(|of| of.name).collect();
    assert_eq!(known, [name("a"), name("z")]);
}

pub(crate) async fn lanes_with_work_are_listed(world: &impl StoreWorld) {
    let store = world.store();
    let mut two = jobs("a", 2);
    two[1].lane = name("text");
    submit(store, two).await;
    let mut lanes = store.lanes().await.expect("read");
    lanes.sort();
    assert_eq!(lanes, [name("mail"), name("text")]);
    let taken = claim(store, 9).await;
    settle_all(store, &taken, done()).await;
    assert_eq!(store.lanes().await.expect("read"), [name("text")]);
}

pub(crate) async fn tenants_are_listed_by_name(world: &impl StoreWorld) {
    let store = world.store();
    for tenant in ["c", "a", "b"] {
        submit(store, jobs(tenant, 1)).await;
    }
    let list = async |after: Option<&str>, most| {
        let page = PageRequest {
            after: after.map(name),
            max: most,
        };
        let tenants = store.tenants(page).await.expect("read");
        let names = tenants.iter().map(|of| of.name.to_string());
        names.collect::<Vec<String>>()
    };
    assert_eq!(list(None, 2).await, ["a", "b"]);
    assert_eq!(list(Some("b"), 0).await, ["c"]);
}
