//! Number of jobs in flight as load rises and falls.

use std::time::Duration;

use outflow_bulk::WorkerSettings;
use outflow_mock::{Script, ScriptMatch, ScriptedFault};
use tokio::time::sleep;

use super::support::{Plan, gets};

// A thousand calls of a second each, by two workers at least and eight at most. Every third check adds half: 3,
// 4, 6 and 8 within twelve seconds. Two alone would need 500 seconds, and eight from the start 125. When little
// waits, every third check removes one, so six fewer within twenty seconds.
#[tokio::test(start_paused = true)]
async fn the_worker_pool_follows_the_load_up_and_down() {
    let late = ScriptedFault::Late(Duration::from_secs(1));
    let plan = Plan::scripted(Script::new().rule(ScriptMatch::always(), late));
    let world = plan
        .with(|settings| {
            settings.workers = WorkerSettings {
                min: Some(2),
                max: Some(8),
                depth: 20,
            };
        })
        .start()
        .await;
    assert_eq!(world.engine.worker_usage(), (2, 0));
    let begun = world.now();
    world.submit("a", gets("t", 1_000)).await;
    let mut sizes = Vec::new();
    for _ in 0..15 {
        sleep(Duration::from_secs(1)).await;
        sizes.push(world.engine.worker_usage().0);
    }
    assert!(sizes.is_sorted(), "{sizes:?}");
    sizes.dedup();
    assert_eq!(sizes, [2, 3, 4, 6, 8]);
    assert_eq!(world.engine.worker_usage(), (8, 8), "all of them work");
    assert_eq!(world.counts().await.in_flight, 8);
    world.finished("a").await;
    let took = world.now().since(begun);
    assert!((125..150).contains(&took.as_secs()), "{took:?}");
    let audit = world.mock.audit();
    let most = audit.most_in_any_window(Duration::from_millis(990));
    assert_eq!((audit.count(), most), (1_000, 8));
    sleep(Duration::from_secs(20)).await;
    assert_eq!(world.engine.worker_usage(), (2, 0));
    world.assert_counts_match().await;
}
