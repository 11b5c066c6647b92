//! Estimates of two actions of one tenant, with their jobs on a Redis server, in real time.

use std::sync::Arc;
use std::time::Duration;

use outflow::Rules;
use outflow::core::Clock;
use outflow_bulk::{Engine, JobSpec, JobSubmission};
use outflow_core::{Nanos, Priority};
use outflow_store::{ActionSpec, BatchPosition, RedisOptions as StoreOptions, RedisStore};
use outflow_testkit::{RedisOptions, RedisServer, VirtualTime};

use super::{Compared, SECOND};
use crate::support::{Plan, client_of, gets, name, shared};

/// Shorter than the latency of the other tests: a run takes seconds of real time.
const LATENCY: Duration = Duration::from_millis(100);

/// Estimates of one action, each with its instant.
#[derive(Default)]
struct ReadEstimates {
    read: Vec<(Nanos, Duration)>,
    ended: Option<Nanos>,
}

impl ReadEstimates {
    fn compared(&self) -> Vec<Compared> {
        let ended = self.ended.expect("over");
        let compared = self.read.iter().map(|(at, eta)| Compared {
            eta: *eta,
            truth: ended.since(*at),
        });
        compared.collect()
    }
}

async fn submit(engine: &Engine<RedisStore>, action: &str, rest: BatchPosition, jobs: Vec<JobSpec>) {
    let submission = JobSubmission {
        action: Some(ActionSpec::new(name(action))),
        rest,
        jobs,
    };
    engine.submit(submission).await.expect("accepted");
}

/// Reads the estimates of two actions twice a second until both have ended.
async fn follow(engine: &Engine<RedisStore>, time: &VirtualTime, actions: [&str; 2]) -> [ReadEstimates; 2] {
    let mut all = [ReadEstimates::default(), ReadEstimates::default()];
    while all.iter().any(|one| one.ended.is_none()) {
        for (action, estimates) in actions.into_iter().zip(&mut all) {
            let progress = engine.progress(&name(action)).await.expect("read").expect("known");
            let now = time.now();
            let counts = &progress.counts;
            match progress.eta {
                _ if counts.open() == 0 => _ = estimates.ended.get_or_insert(now),
                Some(eta) => estimates.read.push((now, eta)),
                // The time of a call is not known yet.
                None => assert_eq!((counts.queued, counts.done), (0, 0), "no estimate: {progress:?}"),
            }
        }
        tokio::time::sleep(SECOND / 4).await;
    }
    all
}

// 30 a second, 300 jobs and then 60: the second action ends after the first. Then the small one is in front, between
// two parts of the large one, and urgent beside it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn etas_of_two_actions_of_a_tenant_on_redis_are_within_a_tenth() {
    for case in ["behind", "in front", "between", "urgent"] {
        let time = VirtualTime::new();
        let plan = Plan::with_user_defaults("30/s", LATENCY);
        plan.mock.limit_to(shared("30/s"));
        let client = client_of(&plan.mock, Rules::with_limit("30/s".parse().expect("a rate")), &time);
        let redis = RedisServer::start(RedisOptions::default()).expect("a server");
        let store = RedisStore::connect(StoreOptions::new(redis.url()))
            .await
            .expect("connected");
        let builder = Engine::builder(client, Arc::new(store)).clock(Arc::new(time.clone()));
        let engine = builder.start().await.expect("started");
        let (big, mut small) = (gets("t", 300), gets("t", 60));
        match case {
            "behind" => {
                submit(&engine, "big", BatchPosition::Last, big).await;
                submit(&engine, "small", BatchPosition::Last, small).await;
            }
            "in front" => {
                submit(&engine, "small", BatchPosition::Last, small).await;
                submit(&engine, "big", BatchPosition::Last, big).await;
            }
            "between" => {
                let (first, second) = big.split_at(150);
                submit(&engine, "big", BatchPosition::More, first.to_vec()).await;
                submit(&engine, "small", BatchPosition::Last, small).await;
                submit(&engine, "big", BatchPosition::Last, second.to_vec()).await;
            }
            _ => {
                for job in &mut small {
                    job.priority = Priority::High;
                }
                submit(&engine, "big", BatchPosition::Last, big).await;
                submit(&engine, "small", BatchPosition::Last, small).await;
            }
        }
        for (action, estimates) in ["big", "small"]
            .into_iter()
            .zip(follow(&engine, &time, ["big", "small"]).await)
        {
            let compared = estimates.compared();
            println!("{case} {action}: {compared:?}");
            // A store is read every quarter of a second.
            let wrong: Vec<_> = compared
                .iter()
                .filter(|one| !one.is_within(SECOND + SECOND / 4))
                .collect();
            assert!(
                wrong.is_empty(),
                "{case} {action}: {} of {}: {wrong:?}",
                wrong.len(),
                compared.len()
            );
            assert!(compared.len() > 3, "{case} {action}: too few to say");
        }
    }
}
