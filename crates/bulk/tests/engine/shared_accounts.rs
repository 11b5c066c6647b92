//! Several engines on one store, and callers of the same API: one account has its limits.

use std::sync::Arc;
use std::time::Duration;

use outflow::{LimitSharing, Outflow, Rules};
use outflow_bulk::Engine;
use outflow_testkit::{Background, MemoryLedger};

use super::support::{Plan, World, client_of, gets};

/// Time of a transfer to the ledger: a server in the same data centre.
const TRANSFER: Duration = Duration::from_millis(1);

fn share(client: &Outflow, ledger: &Arc<MemoryLedger>) {
    let upstream = client.upstream("mock").expect("an API");
    upstream.share(LimitSharing::new(ledger.connect(TRANSFER), "mock".into()));
}

/// Starts two more machines on the store, each with a client of its own.
async fn fleet(world: &World, rate: &str, ledger: &Arc<MemoryLedger>) -> Vec<Engine<outflow_store::EmbeddedStore>> {
    share(&world.client, ledger);
    let mut engines = Vec::new();
    for _ in 0..2 {
        let client = other_client(world, rate);
        share(&client, ledger);
        let builder = Engine::builder(client, Arc::clone(world.engine.store()));
        let builder = builder.settings(world.engine.settings().as_ref().clone());
        let engine = builder.clock(Arc::new(world.time.clone())).start().await;
        engines.push(engine.expect("it starts"));
    }
    engines
}

fn other_client(world: &World, rate: &str) -> Outflow {
    let rules = Rules::with_limit(rate.parse().expect("a rate"));
    client_of(&world.mock, rules, &world.time)
}

// Thirty a second, 50 ms away: 600 jobs of three machines, and four callers of a fourth process beside them. No call
// is throttled, no second has more than thirty, and both get their share.
#[tokio::test(start_paused = true)]
async fn calls_beside_the_jobs_of_three_engines_are_never_throttled() {
    let rate = "30/s";
    let plan = Plan::with_user_defaults(rate, Duration::from_millis(50)).with(|settings| settings.shared = true);
    let world = plan.start().await;
    let ledger = MemoryLedger::new(world.time.clone());
    let _engines = fleet(&world, rate, &ledger).await;
    let caller = other_client(&world, rate);
    share(&caller, &ledger);
    let call = |_| {
        let client = caller.clone();
        Background::start(async move {
            loop {
                let _either_way = client.get("mock", "/live").send().await;
            }
        })
    };
    let callers: Vec<_> = (0..4).map(call).collect();
    let jobs = ["a", "b", "c"].map(|tenant| gets(tenant, 200)).concat();
    world.submit("all", jobs).await;
    let begun = world.now();
    world.finished("all").await;
    let took = world.now().since(begun);
    drop(callers);
    let audit = world.mock.audit();
    let most = audit.most_in_any_window(Duration::from_secs(1));
    assert_eq!(audit.refused(), 0, "{most} in a second");
    assert!(most <= 30, "{most}");
    let others = audit.attempts("/live");
    assert!(others >= 100, "{others} calls beside the jobs in {took:?}");
    let allowed = 30 * u64::try_from(took.as_millis()).expect("short") / 1_000;
    let calls = u64::try_from(audit.count()).expect("few");
    assert!(calls * 100 >= allowed * 85, "{calls} of {allowed} calls in {took:?}");
    world.assert_counts_match().await;
}

// Costs of one and four under one limit of 40 units a second: each is counted by its own cost.
#[tokio::test(start_paused = true)]
async fn jobs_of_several_costs_share_an_account() {
    let rate = "40/s";
    let plan = Plan::with_user_defaults(rate, Duration::from_millis(20)).with(|settings| settings.shared = true);
    let world = plan.start().await;
    let ledger = MemoryLedger::new(world.time.clone());
    let _engines = fleet(&world, rate, &ledger).await;
    let mut jobs = gets("a", 60);
    for (number, job) in jobs.iter_mut().enumerate() {
        job.cost = Some(outflow_core::Cost::new(if number % 3 == 0 { 4 } else { 1 }));
    }
    world.submit("all", jobs).await;
    let begun = world.now();
    world.finished("all").await;
    let took = world.now().since(begun);
    // 120 units at 40 a second, of which a window's worth may come first.
    assert!(took >= Duration::from_millis(1_900), "{took:?}");
    assert_eq!(world.counts().await.done, 60);
}
