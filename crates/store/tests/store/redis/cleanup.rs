//! Removal of a lane and its tenants once their jobs are gone.

use outflow_core::WallTime;
use outflow_store::{ControlScope, CooldownScope, JobQueue, StoreControl};

use super::*;

impl RedisFixture {
    /// Claims a job of the tenant, throttles it, and cancels it.
    async fn refuse(&self, tenant: &str, park: CooldownScope, millis: u64) {
        self.submit(tenant, 1).await;
        let after = Duration::from_millis(millis);
        let refused = |job| end(job, JobEnd::Throttled { after, cooldown: park });
        let jobs = self.claim(1).await.jobs;
        self.settle(jobs.iter().map(refused).collect()).await;
        let scope = ControlScope::Tenant(name(tenant));
        assert_eq!(self.store.cancel(&scope).await.expect("cancelled"), 1);
    }

    async fn tidy(&self) -> u64 {
        let before = WallTime::since_epoch(Duration::ZERO);
        self.store.collect_garbage(before).await.expect("tidied")
    }

    fn number(&self, command: &[&str]) -> u64 {
        let answer = self.server.command(command).expect("an answer");
        answer.trim().parse().expect("a number")
    }
}

// Throttled for a minute. Plain jobs of a known lane take the fast path.
#[tokio::test]
async fn a_cooldown_applies_to_jobs_of_the_fast_path() {
    let fixture = RedisFixture::new().await;
    fixture.refuse("a", CooldownScope::Tenant, 60_000).await;
    fixture.submit("b", 1).await;
    fixture.submit("a", 2).await;
    let jobs = fixture.claim(9).await.jobs;
    assert_eq!(payloads(&jobs), ["b-0"]);
    fixture.assert_balanced().await;
}

// The whole lane waits for 50 ms, then one tenant of another does; neither has a job any more.
#[tokio::test]
async fn an_empty_lane_is_removed_after_its_cooldown() {
    for park in [CooldownScope::Lane, CooldownScope::Tenant] {
        let fixture = RedisFixture::new().await;
        fixture.refuse("a", park, 50).await;
        tokio::time::sleep(Duration::from_millis(60)).await;
        fixture.tidy().await;
        assert_eq!(fixture.store.lanes().await.expect("read"), [], "{park:?}");
        let left = fixture.number(&["EXISTS", "{outflow}:w:api", "{outflow}:p:api"]);
        assert_eq!(left, 0, "{park:?}");
        fixture.submit("a", 1).await;
        assert_eq!(fixture.claim(9).await.jobs.len(), 1);
    }
}

// 3,000 tenants without debts: a claim forgets a thousand of them, and the next ones the rest.
#[tokio::test]
async fn a_claim_forgets_a_bounded_number_of_debts() {
    let fixture = RedisFixture::new().await;
    fixture.submit("a", 1).await;
    fixture.submit("b", 9).await;
    assert_eq!(fixture.claim(1).await.jobs.len(), 1);
    let owe = "for i = 1, 3000 do redis.call('ZADD', '{outflow}:v:api', -1, 't' .. i) end return 1";
    fixture.number(&["EVAL", owe, "0"]);
    let owing = || fixture.number(&["ZCARD", "{outflow}:v:api"]);
    fixture.claim(1).await;
    assert!((1_500..3_000).contains(&owing()), "{}", owing());
    for _ in 0..3 {
        fixture.claim(1).await;
    }
    assert!(owing() < 10, "{}", owing());
}
