//! A job at its last recovery has the process for itself.

use std::pin::pin;
use std::task::{Context, Waker};
use std::time::Duration;

use outflow_store::{
    AllowAll, ClaimBatch, ClaimDecision, ClaimFilter, ClaimRequest, ClaimedJob, ControlScope, CooldownScope, JobEnd,
    JobQueue, NewJob, NextJob, StoreControl,
};

use super::contract::run;
use crate::contract::{claim, claim_one, claim_request, claim_request_as, done, ids, job, jobs, name, settle, submit};
use crate::support::store_dir::EmbeddedFixture;

/// Filter with a fixed decision.
struct FixedFilter(ClaimDecision);

impl ClaimFilter for FixedFilter {
    fn decide(&mut self, _head: &NextJob<'_>) -> ClaimDecision {
        self.0
    }
}

/// Makes a job of another lane.
fn post_job(tenant: &str, id: &str) -> NewJob {
    NewJob {
        lane: name("post"),
        ..job(tenant, id)
    }
}

fn post_request(max: usize) -> ClaimRequest {
    ClaimRequest {
        lane: name("post"),
        ..claim_request(max)
    }
}

async fn claim_with(fixture: &EmbeddedFixture, request: ClaimRequest, gate: &mut impl ClaimFilter) -> ClaimBatch {
    fixture.store.claim(request, gate).await.expect("claimed")
}

async fn claim_post(fixture: &EmbeddedFixture, max: usize) -> Vec<ClaimedJob> {
    claim_with(fixture, post_request(max), &mut AllowAll).await.jobs
}

/// Loses jobs of the tenant `a` with their worker twice, which is their bound.
async fn make_suspects(fixture: &EmbeddedFixture, count: u32) {
    submit(&fixture.store, jobs("a", count)).await;
    for worker in ["w1", "w2"] {
        let request = claim_request_as(worker, 99, Duration::from_secs(5));
        let lost = claim_with(fixture, request, &mut AllowAll).await.jobs;
        assert_eq!(lost.len(), usize::try_from(count).expect("few"));
        fixture.clock.advance(Duration::from_secs(10));
        let reaped = fixture.store.reap(99, 2).await.expect("reaped");
        assert_eq!((reaped.returned, reaped.dead_lettered), (u64::from(count), 0));
    }
}

#[test]
fn no_job_runs_next_to_one_at_its_last_recovery() {
    run(async |fixture| {
        make_suspects(fixture, 2).await;
        submit(&fixture.store, jobs("b", 3)).await;
        submit(&fixture.store, vec![post_job("c", "c-0")]).await;
        for id in ["a-0", "a-1"] {
            let mut alone = claim(&fixture.store, 9).await;
            while ids(&alone) != [id] {
                // The others came first; they do not run next to the suspect.
                assert!(alone.iter().all(|job| job.recoveries == 0), "{alone:?}");
                for job in &alone {
                    settle(&fixture.store, job, done()).await;
                }
                alone = claim(&fixture.store, 9).await;
            }
            assert!(claim(&fixture.store, 9).await.is_empty(), "next to {id}");
            assert!(claim_post(fixture, 9).await.is_empty(), "next to {id}");
            settle(&fixture.store, &alone[0], done()).await;
        }
        assert_eq!(claim_post(fixture, 9).await.len(), 1);
        assert_eq!(fixture.store.audit().await.expect("counted"), 0);
    });
}

// The process dies with the first of four claimed: that job is the culprit, and the others have
// another chance.
#[test]
fn only_the_job_that_kills_is_dead_lettered() {
    run(async |fixture| {
        make_suspects(fixture, 4).await;
        let request = claim_request_as("w3", 99, Duration::from_secs(5));
        assert_eq!(claim_with(fixture, request, &mut AllowAll).await.jobs.len(), 1);
        fixture.clock.advance(Duration::from_secs(10));
        let reaped = fixture.store.reap(99, 2).await.expect("reaped");
        assert_eq!((reaped.returned, reaped.dead_lettered), (0, 1));
        for id in ["a-1", "a-2", "a-3"] {
            let next = claim_one(&fixture.store).await;
            assert_eq!(next.id, name(id));
            settle(&fixture.store, &next, done()).await;
        }
        assert_eq!(fixture.store.job_counts().await.expect("counted").dead, 1);
    });
}

#[test]
fn a_suspect_waits_for_all_lanes_and_is_notified() {
    run(async |fixture| {
        make_suspects(fixture, 1).await;
        let letters = (0..3).map(|number| post_job("b", &format!("b-{number}")));
        submit(&fixture.store, letters.collect()).await;
        let in_flight = claim_post(fixture, 1).await;
        assert!(claim(&fixture.store, 9).await.is_empty(), "not next to b-0");
        assert!(claim_post(fixture, 1).await.is_empty(), "the suspect waits");
        let mut rung = pin!(fixture.store.changed());
        let mut context = Context::from_waker(Waker::noop());
        assert!(rung.as_mut().poll(&mut context).is_pending());
        settle(&fixture.store, &in_flight[0], done()).await;
        assert!(rung.as_mut().poll(&mut context).is_ready());
        assert!(claim_post(fixture, 1).await.is_empty(), "it is the suspect's turn");
        let alone = claim_one(&fixture.store).await;
        let mut rung = pin!(fixture.store.changed());
        assert!(rung.as_mut().poll(&mut context).is_pending());
        settle(&fixture.store, &alone, done()).await;
        assert!(rung.as_mut().poll(&mut context).is_ready());
        assert_eq!(claim_post(fixture, 9).await.len(), 2);
    });
}

// Others waited for three seconds. The suspect gets no permit: after one more second they continue,
// and it does not block them again for thirty seconds, and later only on demand.
#[test]
fn a_suspect_without_a_permit_does_not_block_the_others() {
    run(async |fixture| {
        make_suspects(fixture, 1).await;
        submit(
            &fixture.store,
            (0..9).map(|n| post_job("b", &format!("b-{n}"))).collect(),
        )
        .await;
        let in_flight = claim_post(fixture, 1).await;
        assert!(claim(&fixture.store, 9).await.is_empty());
        fixture.clock.advance(Duration::from_secs(3));
        settle(&fixture.store, &in_flight[0], done()).await;
        let refused = claim_with(fixture, claim_request(9), &mut FixedFilter(ClaimDecision::Stop)).await;
        assert!(refused.jobs.is_empty());
        let held = claim_with(fixture, post_request(1), &mut AllowAll).await;
        assert_eq!((held.jobs.len(), held.next), (0, Some(Duration::from_secs(1))));
        fixture.clock.advance(Duration::from_secs(1));
        let going = claim_post(fixture, 1).await;
        assert_eq!(going.len(), 1);
        assert!(claim(&fixture.store, 9).await.is_empty(), "it stays back");
        assert_eq!(claim_post(fixture, 1).await.len(), 1, "and blocks no other job");
    });
}

#[test]
fn a_suspect_of_a_parked_or_paused_tenant_does_not_block_the_others() {
    run(async |fixture| {
        make_suspects(fixture, 1).await;
        submit(
            &fixture.store,
            (0..9).map(|n| post_job("b", &format!("b-{n}"))).collect(),
        )
        .await;
        submit(&fixture.store, jobs("c", 1)).await;
        let at = outflow_core::Clock::now(&*fixture.clock).saturating_add(Duration::from_mins(1));
        let parked = claim_with(
            fixture,
            claim_request(1),
            &mut FixedFilter(ClaimDecision::SkipUntil(at)),
        )
        .await;
        assert!(parked.jobs.is_empty());
        let in_flight = claim_post(fixture, 1).await;
        assert_eq!(in_flight.len(), 1, "it is parked");
        fixture.clock.advance(Duration::from_mins(1));
        assert!(claim(&fixture.store, 9).await.iter().all(|job| job.recoveries == 0));
        assert!(claim_post(fixture, 1).await.is_empty(), "it is back, and waits");
        let tenant = ControlScope::Tenant(name("a"));
        fixture.store.pause(&tenant).await.expect("paused");
        claim(&fixture.store, 9).await;
        assert_eq!(claim_post(fixture, 1).await.len(), 1, "it is paused");
    });
}

// A caller that returned the job did not attempt it, and proves nothing about it.
#[test]
fn a_worker_that_survives_an_attempt_clears_its_job() {
    run(async |fixture| {
        make_suspects(fixture, 2).await;
        let alone = claim_one(&fixture.store).await;
        settle(&fixture.store, &alone, JobEnd::Returned).await;
        let alone = claim_one(&fixture.store).await;
        assert_eq!(alone.recoveries, 2);
        let retry = JobEnd::Retry {
            after: Duration::ZERO,
            message: "no".to_owned(),
            result: None,
        };
        settle(&fixture.store, &alone, retry).await;
        let alone = claim_one(&fixture.store).await;
        assert_eq!((alone.id.as_str(), alone.recoveries), ("a-0", 0));
        settle(&fixture.store, &alone, done()).await;
        let refused = JobEnd::Throttled {
            after: Duration::ZERO,
            cooldown: CooldownScope::Tenant,
        };
        let alone = claim_one(&fixture.store).await;
        settle(&fixture.store, &alone, refused).await;
        let alone = claim_one(&fixture.store).await;
        assert_eq!((alone.id.as_str(), alone.recoveries), ("a-1", 0));
    });
}
