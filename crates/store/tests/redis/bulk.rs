//! Tenants, statistics, and everything that concerns many jobs at once.

use std::time::Duration;

use outflow_core::{CongestionRule, WallTime};
use outflow_store::{
    ActionSpec, Batch, DeadPick, End, JobStore, Page, PutOff, Rest, Scope, Settled, Stage,
    TenantRule,
};

use super::*;

// The worked example of the congestion rule: at 2 a second for each of two tenants, the second of them
// waits one second more than the first.
#[tokio::test]
async fn a_job_without_room_is_put_off_by_the_formula_and_released_early() {
    let room = Room::new().await;
    room.submit("a", 3).await;
    room.submit("b", 1).await;
    let jobs: Vec<_> = room
        .claim(4)
        .await
        .jobs
        .into_iter()
        .filter(|job| job.tenant == name("a"))
        .collect();
    let formula = End::PutOff(PutOff::Formula {
        rule: CongestionRule::default(),
        global: 4,
    });
    let ends = jobs.iter().map(|job| end(job, formula.clone())).collect();
    let put_off = |secs, non_ready| Settled::PutOff {
        backoff: Duration::from_secs(secs),
        non_ready,
        speed: 2,
    };
    assert_eq!(
        room.settle(ends).await,
        [put_off(1, 1), put_off(2, 2), put_off(2, 3)]
    );
    let report = room
        .store
        .tenant(&name("a"))
        .await
        .expect("asked")
        .expect("known");
    assert_eq!(
        (report.tally.non_ready, report.tally.queued, report.speed),
        (3, 3, 2)
    );
    assert_eq!(report.last_backoff, Duration::from_secs(2));
    assert!(
        room.store
            .reset(&name("a"))
            .await
            .expect_err("put off")
            .is_refused()
    );
    room.store
        .snapshot(Duration::from_mins(1))
        .await
        .expect("snapshot");
    let history = room.store.history(&name("a"), 5).await.expect("history");
    assert_eq!(
        (history.len(), history[0].non_ready, history[0].speed),
        (1, 3, 2)
    );
    assert!(room.claim(4).await.jobs.is_empty());
    assert_eq!(
        room.store.release(&name("a"), 2).await.expect("released"),
        1
    );
    let again = room.claim(4).await.jobs;
    assert_eq!(payloads(&again), ["a-0", "a-1"]);
    assert_eq!((again[0].throttles, again[0].attempt), (1, 2));
    room.finish(&again).await;
    assert_eq!(room.store.tally().await.expect("tally").throttles, 3);
    assert_eq!(
        room.store.release(&name("a"), 9).await.expect("released"),
        0
    );
    room.store.reset(&name("a")).await.expect("reset");
    assert!(
        room.store
            .history(&name("a"), 5)
            .await
            .expect("history")
            .is_empty()
    );
    room.balanced().await;
}

#[tokio::test]
async fn a_cancelled_tenant_loses_what_waits_and_what_is_under_way() {
    let room = Room::new().await;
    room.submit("a", 5).await;
    room.submit("b", 1).await;
    let jobs = room.claim(4).await.jobs;
    let retry = End::Retry {
        after: Duration::from_mins(1),
        words: "503".to_owned(),
        result: None,
    };
    let a: Vec<_> = jobs.iter().filter(|job| job.tenant == name("a")).collect();
    assert_eq!(a.len(), 3);
    room.settle(vec![end(a[0], retry), end(a[1], End::Returned)])
        .await;
    assert_eq!(
        room.store
            .cancel(&Scope::Tenant(name("a")))
            .await
            .expect("cancelled"),
        4
    );
    assert_eq!(room.settle(vec![done(a[2])]).await, [Settled::Cancelled]);
    room.submit("a", 1).await;
    assert_eq!(
        room.claim(4).await.jobs.len(),
        1,
        "what comes later is not meant"
    );
    assert_eq!(room.store.tally().await.expect("tally").cancelled, 5);
    room.balanced().await;
}

#[tokio::test]
async fn an_action_out_of_time_fails_until_it_is_told() {
    let room = Room::new().await;
    let spec = ActionSpec {
        timeout: Duration::from_millis(400),
        note: Some("https://example.test/hook".to_owned()),
        ..ActionSpec::new(name("mail"))
    };
    room.store.open(spec.clone()).await.expect("opened");
    let batch = Batch {
        action: Some(ActionSpec::new(name("mail"))),
        ..Batch::of(vec![job("a", 0), job("a", 1)])
    };
    room.store.submit(batch).await.expect("submitted");
    let jobs = room.claim(1).await.jobs;
    assert!(room.store.ripe(9).await.expect("ripe").is_empty());
    tokio::time::sleep(Duration::from_millis(450)).await;
    for _ in 0..2 {
        let ripe = room.store.ripe(9).await.expect("ripe");
        assert_eq!(
            (ripe.len(), ripe[0].stage, &ripe[0].spec),
            (1, Stage::Failed, &spec)
        );
        assert_eq!(ripe[0].tally.cancelled, 1);
    }
    room.store.told(&name("mail")).await.expect("told");
    assert!(room.store.ripe(9).await.expect("ripe").is_empty());
    assert_eq!(
        room.settle(vec![end(&jobs[0], End::Returned)]).await,
        [Settled::Cancelled]
    );
    assert!(room.claim(1).await.jobs.is_empty());
    assert!(
        room.store
            .close(&name("unknown"))
            .await
            .expect_err("unknown")
            .is_refused()
    );
    let known = room.store.actions(Page::default()).await.expect("actions");
    assert_eq!(known.len(), 1);
    room.balanced().await;
}

#[tokio::test]
async fn a_tenant_begins_its_counts_anew_when_it_has_work_again() {
    let room = Room::new().await;
    room.submit("a", 2).await;
    let jobs = room.claim(2).await.jobs;
    room.finish(&jobs).await;
    assert_eq!(room.store.active().await.expect("active"), 0);
    let report = async || {
        room.store
            .tenant(&name("a"))
            .await
            .expect("asked")
            .expect("known")
    };
    assert_eq!(report().await.tally.done, 2);
    room.submit("a", 1).await;
    assert_eq!(
        (report().await.tally.done, report().await.tally.queued),
        (0, 1)
    );
    assert_eq!(room.store.active().await.expect("active"), 1);
    assert_eq!(room.store.lanes().await.expect("lanes"), [name("api")]);
    room.store
        .set_rule(&name("z"), TenantRule::default())
        .await
        .expect("ruled");
    let names = |page| async {
        room.store
            .tenants(page)
            .await
            .expect("tenants")
            .into_iter()
            .map(|t| t.name)
            .collect::<Vec<_>>()
    };
    assert_eq!(names(Page::default()).await, [name("a"), name("z")]);
    assert_eq!(
        names(Page {
            after: Some(name("a")),
            most: 1
        })
        .await,
        [name("z")]
    );
    assert_eq!(
        room.store.tenant(&name("nobody")).await.expect("asked"),
        None
    );
}

// Names with everything that keys are made of.
#[tokio::test]
async fn no_two_names_share_a_key() {
    let room = Room::new().await;
    for (lane, tenant) in [("a:b", "c"), ("a", "b:c"), ("{a}", "}"), ("a", "3:a:c")] {
        let job = NewJob::new(
            name(tenant),
            name(lane),
            Bytes::from(format!("{lane} {tenant}")),
        );
        room.store
            .submit(Batch::of(vec![job]))
            .await
            .expect("submitted");
    }
    for (lane, many) in [("a:b", 1), ("a", 2), ("{a}", 1)] {
        let ask = ClaimAsk {
            lane: name(lane),
            session: name("s:1"),
            most: 9,
            lease: Duration::from_secs(9),
            plan: None,
        };
        let jobs = room
            .store
            .claim(ask, &mut OpenGate)
            .await
            .expect("claimed")
            .jobs;
        assert_eq!(jobs.len(), many, "{lane}");
        for job in jobs {
            assert_eq!(job.payload, format!("{lane} {}", job.tenant));
        }
    }
    room.balanced().await;
}

#[tokio::test]
async fn whoever_waits_hears_of_a_submission_on_another_machine() {
    let room = Room::new().await;
    let other = connect(&room.server).await;
    // The first rings because the ear was just opened.
    room.store.changed().await;
    let waiting = room.store.changed();
    let submitted = other.submit(Batch::of(vec![job("a", 0)]));
    let both = async { tokio::join!(waiting, submitted) };
    let ((), submitted) = tokio::time::timeout(Duration::from_secs(4), both)
        .await
        .expect("heard");
    submitted.expect("submitted");
    // Nothing happens: nothing rings.
    let silence = tokio::time::timeout(Duration::from_millis(50), room.store.changed()).await;
    assert!(silence.is_err());
}

// Every key that remains is one of the queue itself, not of a tenant, an action or a session.
#[tokio::test]
async fn what_is_over_leaves_no_keys_behind() {
    let room = Room::new().await;
    for round in 0..3 {
        let batch = Batch {
            action: Some(ActionSpec::new(name("mail"))),
            rest: Rest::Last,
            remember: Duration::from_millis(1),
            ..Batch::of(
                (0..50)
                    .map(|n| NewJob {
                        id: Some(name(&format!("{round}-{n}"))),
                        ..job(&format!("t{n}"), n)
                    })
                    .collect(),
            )
        };
        room.store
            .open(ActionSpec {
                keep: Duration::from_millis(1),
                ..ActionSpec::new(name("mail"))
            })
            .await
            .expect("opened");
        room.store.submit(batch).await.expect("submitted");
        let jobs = room.claim(100).await.jobs;
        let failed = End::Failed {
            words: "x".to_owned(),
            result: None,
        };
        let (some, others) = jobs.split_at(10);
        room.settle(some.iter().map(|job| end(job, failed.clone())).collect())
            .await;
        room.finish(others).await;
        assert_eq!(
            room.store
                .purge(&DeadPick::Action(name("mail")))
                .await
                .expect("purged"),
            10
        );
        room.store.told(&name("mail")).await.expect("told");
    }
    tokio::time::sleep(Duration::from_millis(5)).await;
    assert!(room.store.tidy(WallTime::EPOCH).await.expect("tidied") >= 150);
    let script = "return table.concat(redis.call('KEYS', '*'), ' ')";
    let keys = room.server.ask(&["EVAL", script, "0"]).expect("keys");
    let mut keys: Vec<_> = keys.split(' ').collect();
    keys.sort_unstable();
    let own = [
        "{outflow}:epoch",
        "{outflow}:idle",
        "{outflow}:rest",
        "{outflow}:sessions",
        "{outflow}:t",
        "{outflow}:who",
    ];
    assert_eq!(keys, own);
}

// Two machines that work at once: every job is done once.
#[tokio::test]
async fn two_machines_share_the_work_and_nothing_is_done_twice() {
    let server = RedisServer::start(ServerOptions::default()).expect("a server");
    let store = connect(&server).await;
    for tenant in ["a", "b"] {
        let jobs = (0..1_000).map(|n| job(tenant, n)).collect();
        store.submit(Batch::of(jobs)).await.expect("submitted");
    }
    let work = |session: &'static str, store: Redis| async move {
        let mut finished = Vec::new();
        loop {
            let jobs = claim(&store, session, 37, None).await.jobs;
            if jobs.is_empty() {
                return finished;
            }
            let ends = jobs.iter().map(done).collect();
            for settled in store.settle(&name(session), ends).await.expect("settled") {
                assert_eq!(settled, Settled::Done);
            }
            finished.extend(payloads(&jobs));
        }
    };
    let (one, two) = (connect(&server).await, connect(&server).await);
    let (one, two) = tokio::join!(work("one", one), work("two", two));
    let mut all = [one, two].concat();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 2_000);
    assert_eq!(store.recount().await.expect("counted"), 0);
}
