//! A job at its last recovery has the process for itself.

use std::pin::pin;
use std::task::{Context, Waker};
use std::time::Duration;

use outflow_store::{
    AllowAll, ClaimBatch, ClaimDecision, ClaimFilter, ClaimRequest, ClaimedJob, ControlScope,
    CooldownScope, JobEnd, JobQueue, NewJob, NextJob, StoreControl,
};

use super::contract::run;
use crate::contract::{ask, ask_as, claim, claim_one, done, ids, job, jobs, name, settle, submit};
use crate::support::store_dir::Room;

/// Filter with a fixed decision.
struct Shut(ClaimDecision);

impl ClaimFilter for Shut {
    fn decide(&mut self, _head: &NextJob<'_>) -> ClaimDecision {
        self.0
    }
}

/// Makes a job of another lane.
fn letter(tenant: &str, id: &str) -> NewJob {
    NewJob {
        lane: name("post"),
        ..job(tenant, id)
    }
}

fn in_post(most: usize) -> ClaimRequest {
    ClaimRequest {
        lane: name("post"),
        ..ask(most)
    }
}

async fn asked(room: &Room, ask: ClaimRequest, gate: &mut impl ClaimFilter) -> ClaimBatch {
    room.store.claim(ask, gate).await.expect("claimed")
}

async fn posted(room: &Room, most: usize) -> Vec<ClaimedJob> {
    asked(room, in_post(most), &mut AllowAll).await.jobs
}

/// Loses jobs of the tenant `a` with their worker twice, which is their bound.
async fn suspects(room: &Room, count: u32) {
    submit(&room.store, jobs("a", count)).await;
    for worker in ["w1", "w2"] {
        let ask = ask_as(worker, 99, Duration::from_secs(5));
        let lost = asked(room, ask, &mut AllowAll).await.jobs;
        assert_eq!(lost.len(), usize::try_from(count).expect("few"));
        room.clock.advance(Duration::from_secs(10));
        let reaped = room.store.reap(99, 2).await.expect("reaped");
        assert_eq!((reaped.returned, reaped.buried), (u64::from(count), 0));
    }
}

#[test]
fn nothing_is_given_out_beside_a_job_on_its_last_chance() {
    run(async |room| {
        suspects(room, 2).await;
        submit(&room.store, jobs("b", 3)).await;
        submit(&room.store, vec![letter("c", "c-0")]).await;
        for id in ["a-0", "a-1"] {
            let mut alone = claim(&room.store, 9).await;
            while ids(&alone) != [id] {
                // The others came first; they do not run next to the suspect.
                assert!(alone.iter().all(|job| job.recoveries == 0), "{alone:?}");
                for job in &alone {
                    settle(&room.store, job, done()).await;
                }
                alone = claim(&room.store, 9).await;
            }
            assert!(claim(&room.store, 9).await.is_empty(), "beside {id}");
            assert!(posted(room, 9).await.is_empty(), "beside {id}");
            settle(&room.store, &alone[0], done()).await;
        }
        assert_eq!(posted(room, 9).await.len(), 1);
        assert_eq!(room.store.audit().await.expect("counted"), 0);
    });
}

// The process dies with the first of four claimed: that job is the culprit, and the others have
// another chance.
#[test]
fn a_job_that_kills_is_buried_and_those_behind_it_are_not() {
    run(async |room| {
        suspects(room, 4).await;
        let ask = ask_as("w3", 99, Duration::from_secs(5));
        assert_eq!(asked(room, ask, &mut AllowAll).await.jobs.len(), 1);
        room.clock.advance(Duration::from_secs(10));
        let reaped = room.store.reap(99, 2).await.expect("reaped");
        assert_eq!((reaped.returned, reaped.buried), (0, 1));
        for id in ["a-1", "a-2", "a-3"] {
            let next = claim_one(&room.store).await;
            assert_eq!(next.id, name(id));
            settle(&room.store, &next, done()).await;
        }
        assert_eq!(room.store.job_counts().await.expect("counted").dead, 1);
    });
}

#[test]
fn a_suspect_waits_until_all_lanes_are_done_and_is_rung_for() {
    run(async |room| {
        suspects(room, 1).await;
        let letters = (0..3).map(|number| letter("b", &format!("b-{number}")));
        submit(&room.store, letters.collect()).await;
        let under_way = posted(room, 1).await;
        assert!(claim(&room.store, 9).await.is_empty(), "not beside b-0");
        assert!(posted(room, 1).await.is_empty(), "the suspect waits");
        let mut rung = pin!(room.store.changed());
        let mut context = Context::from_waker(Waker::noop());
        assert!(rung.as_mut().poll(&mut context).is_pending());
        settle(&room.store, &under_way[0], done()).await;
        assert!(rung.as_mut().poll(&mut context).is_ready());
        assert!(posted(room, 1).await.is_empty(), "it is the suspect's turn");
        let alone = claim_one(&room.store).await;
        let mut rung = pin!(room.store.changed());
        assert!(rung.as_mut().poll(&mut context).is_pending());
        settle(&room.store, &alone, done()).await;
        assert!(rung.as_mut().poll(&mut context).is_ready());
        assert_eq!(posted(room, 9).await.len(), 2);
    });
}

// Others waited for three seconds. The suspect gets no permit: after one more second they continue,
// and it does not block them again for thirty seconds, and later only on demand.
#[test]
fn a_suspect_without_a_permit_does_not_stop_the_others() {
    run(async |room| {
        suspects(room, 1).await;
        submit(
            &room.store,
            (0..9).map(|n| letter("b", &format!("b-{n}"))).collect(),
        )
        .await;
        let under_way = posted(room, 1).await;
        assert!(claim(&room.store, 9).await.is_empty());
        room.clock.advance(Duration::from_secs(3));
        settle(&room.store, &under_way[0], done()).await;
        let refused = asked(room, ask(9), &mut Shut(ClaimDecision::Stop)).await;
        assert!(refused.jobs.is_empty());
        let held = asked(room, in_post(1), &mut AllowAll).await;
        assert_eq!(
            (held.jobs.len(), held.next),
            (0, Some(Duration::from_secs(1)))
        );
        room.clock.advance(Duration::from_secs(1));
        let going = posted(room, 1).await;
        assert_eq!(going.len(), 1);
        assert!(claim(&room.store, 9).await.is_empty(), "it stays back");
        assert_eq!(posted(room, 1).await.len(), 1, "and holds nobody up");
    });
}

#[test]
fn a_suspect_whose_tenant_is_parked_or_paused_lets_the_others_go() {
    run(async |room| {
        suspects(room, 1).await;
        submit(
            &room.store,
            (0..9).map(|n| letter("b", &format!("b-{n}"))).collect(),
        )
        .await;
        submit(&room.store, jobs("c", 1)).await;
        let at = outflow_core::Clock::now(&*room.clock).saturating_add(Duration::from_mins(1));
        let parked = asked(room, ask(1), &mut Shut(ClaimDecision::Park(at))).await;
        assert!(parked.jobs.is_empty());
        let under_way = posted(room, 1).await;
        assert_eq!(under_way.len(), 1, "it is parked");
        room.clock.advance(Duration::from_mins(1));
        assert!(
            claim(&room.store, 9)
                .await
                .iter()
                .all(|job| job.recoveries == 0)
        );
        assert!(posted(room, 1).await.is_empty(), "it is back, and waits");
        let tenant = ControlScope::Tenant(name("a"));
        room.store.pause(&tenant).await.expect("paused");
        claim(&room.store, 9).await;
        assert_eq!(posted(room, 1).await.len(), 1, "it is paused");
    });
}

// A caller that returned the job did not attempt it, and proves nothing about it.
#[test]
fn a_worker_that_lived_through_an_attempt_clears_its_job() {
    run(async |room| {
        suspects(room, 2).await;
        let alone = claim_one(&room.store).await;
        settle(&room.store, &alone, JobEnd::Returned).await;
        let alone = claim_one(&room.store).await;
        assert_eq!(alone.recoveries, 2);
        let retry = JobEnd::Retry {
            after: Duration::ZERO,
            words: "no".to_owned(),
            result: None,
        };
        settle(&room.store, &alone, retry).await;
        let alone = claim_one(&room.store).await;
        assert_eq!((alone.id.as_str(), alone.recoveries), ("a-0", 0));
        settle(&room.store, &alone, done()).await;
        let refused = JobEnd::Throttled {
            after: Duration::ZERO,
            park: CooldownScope::Tenant,
        };
        let alone = claim_one(&room.store).await;
        settle(&room.store, &alone, refused).await;
        let alone = claim_one(&room.store).await;
        assert_eq!((alone.id.as_str(), alone.recoveries), ("a-1", 0));
    });
}
