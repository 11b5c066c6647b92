//! Foreign values in keys of the queue. A step that meets one names it and has changed nothing, or
//! moves it away: in either case no job is lost, and the audit finds no difference.

use outflow_store::{ActionSpec, BatchPosition, ControlScope, CooldownScope, Defer, JobQueue, StoreControl};

use super::*;

/// Keys that steps only write to, or that do not exist before.
const KEYS: [&str; 17] = [
    "r:act", "m:act", "o:a", "o:b", "p:api", "d:api", "f:api", "v:api", "h:a", "dead", "names", "idle", "who", "lanes",
    "ripe", "actions", "adue",
];

fn every_end(job: &ClaimedJob, nth: usize) -> Settlement {
    let message = || "503".to_owned();
    let of = match nth % 6 {
        0 => JobEnd::Deferred(Defer::Fixed(Duration::from_millis(1))),
        1 => JobEnd::Retry {
            after: Duration::from_millis(1),
            message: message(),
            result: None,
        },
        2 => JobEnd::Throttled {
            after: Duration::from_millis(1),
            cooldown: CooldownScope::Tenant,
        },
        3 => JobEnd::Failed {
            message: message(),
            result: None,
        },
        4 => JobEnd::Returned,
        _ => JobEnd::Done {
            took: Duration::from_millis(1),
            result: None,
        },
    };
    end(job, of)
}

/// Submits jobs of two tenants, half of them of an action.
async fn submitted(fixture: &RedisFixture, round: usize) -> bool {
    let named = |tenant: &str, n: usize| NewJob {
        id: Some(name(&format!("{tenant}-{round}-{n}"))),
        ..job(tenant, n)
    };
    let of_action = SubmitBatch {
        action: Some(ActionSpec::new(name("act"))),
        rest: BatchPosition::More,
        ..SubmitBatch::from_jobs((0..6).map(|n| named("a", n)).collect())
    };
    let plain = SubmitBatch::from_jobs((0..6).map(|n| job("b", n)).collect());
    fixture.store.submit(of_action).await.is_ok() && fixture.store.submit(plain).await.is_ok()
}

/// Runs all operations with a foreign value in the key. Every failure names the key, and is
/// repeated without it.
async fn run_with_foreign_key(key: &str) {
    let fixture = RedisFixture::new().await;
    let key = format!("{{outflow}}:{key}");
    // Unless the queue's own value is there by now.
    let remove = || {
        let kind = fixture.server.command(&["TYPE", &key]).expect("asked");
        if kind.trim() == "string" {
            fixture.server.command(&["DEL", &key]).expect("asked");
        }
    };
    let put = || fixture.server.command(&["SET", &key, "mine", "NX"]).expect("asked");
    put();
    if !submitted(&fixture, 0).await {
        remove();
        fixture.assert_balanced().await;
        assert!(submitted(&fixture, 1).await, "{key}");
    }
    put();
    let paused = fixture.store.pause(&ControlScope::Action(name("act"))).await;
    let mut claims = ClaimBatch::default();
    for _ in 0..3 {
        put();
        match claim_all(&fixture).await {
            Ok(more) => claims.jobs.extend(more.jobs),
            Err(error) => {
                assert!(error.to_string().contains(&key), "{key}: {error}");
            }
        }
        remove();
        fixture.assert_balanced().await;
    }
    if paused.is_ok() {
        remove();
        let resumed = fixture.store.resume(&ControlScope::Action(name("act"))).await;
        resumed.expect("resumed");
    }
    put();
    let jobs = claims.jobs.iter().enumerate();
    let ends: Vec<_> = jobs.map(|(nth, job)| every_end(job, nth)).collect();
    if let Err(error) = fixture.store.settle(&name("worker"), ends.clone()).await {
        assert!(error.to_string().contains(&key), "{key}: {error}");
        remove();
        fixture.assert_balanced().await;
        let settled = fixture.store.settle(&name("worker"), ends).await;
        assert!(!settled.expect("settled").contains(&SettleResult::Fenced), "{key}");
    }
    remove();
    fixture.assert_balanced().await;
    let counts = fixture.store.job_counts().await.expect("counted");
    assert_eq!(counts.submitted() % 12, 0, "{key}: {counts:?}");
}

async fn claim_all(fixture: &RedisFixture) -> Result<ClaimBatch, outflow_store::StoreError> {
    let request = ClaimRequest {
        lane: name("api"),
        session: name("worker"),
        max: 9,
        lease: Duration::from_secs(30),
        recoveries: 2,
        limits: None,
        cost: None,
    };
    fixture.store.claim(request, &mut AllowAll).await
}

#[tokio::test]
async fn a_foreign_value_costs_no_job() {
    for key in KEYS {
        run_with_foreign_key(key).await;
    }
}
