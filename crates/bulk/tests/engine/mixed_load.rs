//! Jobs together with other load: callers of the same API, and actions whose webhooks do not answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use outflow::Rules;
use outflow_bulk::{JobSubmission, Webhook};
use outflow_mock::{Fault, Script, ScriptMatch};
use outflow_store::{ActionSpec, BatchPosition};
use outflow_testkit::Background;
use tokio::time::sleep;

use super::support::{Plan, World, gets, name};

/// Starts callers of the same API; each makes its next call as soon as one is answered.
fn callers(world: &World, count: usize) -> (Vec<Background<()>>, Arc<AtomicU64>) {
    let served = Arc::new(AtomicU64::new(0));
    let caller = || {
        let (client, served) = (world.client.clone(), Arc::clone(&served));
        Background::start(async move {
            loop {
                if client.get("mock", "/live").send().await.is_ok() {
                    served.fetch_add(1, Ordering::Relaxed);
                }
            }
        })
    };
    ((0..count).map(|_| caller()).collect(), served)
}

// Seven callers at one a second keep a queue of seven seconds, longer than a lane waits there before it selects
// a tenant again. The lane is one of eight waiters: 75 of 600, and a few less while it selects.
#[tokio::test(start_paused = true)]
async fn jobs_get_their_share_among_callers_of_the_same_api() {
    let world = Plan::limited("1/s").start().await;
    let (_calling, served) = callers(&world, 7);
    sleep(Duration::from_secs(30)).await;
    world.submit("a", gets("t", 200)).await;
    let before = served.load(Ordering::Relaxed);
    sleep(Duration::from_mins(10)).await;
    let (others, done) = (served.load(Ordering::Relaxed) - before, world.counts().await.done);
    assert!((65..=80).contains(&done), "{done} jobs and {others} calls");
    assert_eq!(world.mock.audit().refused(), 0);
}

fn with_webhook(id: &str, api: &str, path: &str) -> JobSubmission {
    let hook = Webhook {
        api: api.to_owned(),
        path: path.to_owned(),
    };
    JobSubmission {
        action: Some(ActionSpec {
            note: Some(hook.note()),
            ..ActionSpec::new(name(id))
        }),
        rest: BatchPosition::Last,
        jobs: gets("t", 1),
    }
}

// Forty webhooks of one API hang, more than are notified at once through it; the webhook of another API is
// notified at once.
#[tokio::test(start_paused = true)]
async fn a_hanging_webhook_delays_no_webhook_of_another_api() {
    let script = Script::new().rule(ScriptMatch::path("/dead"), Fault::Hang);
    let mut plan = Plan::scripted(script);
    plan.others = vec![("dead", Rules::unlimited())];
    let world = plan.start().await;
    for number in 0..40 {
        let hung = with_webhook(&format!("dead-{number}"), "dead", "/dead");
        world.engine.submit(hung).await.expect("accepted");
    }
    while world.mock.audit().attempts("/dead") < 16 {
        sleep(Duration::from_millis(10)).await;
    }
    let begun = world.now();
    let sound = with_webhook("sound", "mock", "/hook");
    world.engine.submit(sound).await.expect("accepted");
    world.finished("sound").await;
    let took = world.now().since(begun);
    assert!(took < Duration::from_secs(2), "{took:?}");
    assert_eq!(world.mock.audit().attempts("/hook"), 1);
}
