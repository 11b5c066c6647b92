//! Networks that are slow, cut replies, or go silent.

use std::time::Duration;

use outflow_store::{JobQueue, SettleResult, StoreControl};
use outflow_testkit::{Cut, Direction, LinkLatency, NetConditions, RedisOptions as ServerOptions};
use tokio::time::{Instant, sleep, timeout};

use super::support::{CALL_TIMEOUT, LEASE, ProxyFixture, RECOVERY_TIME, claim, settle};

impl ProxyFixture {
    /// Connects to a server that knows all scripts: then a cut hits a reply and not the script
    /// upload.
    async fn warm() -> Self {
        let fixture = Self::new(ServerOptions::default()).await;
        fixture.submit("warm", 1).await.expect("submitted");
        assert_eq!(fixture.work_off("warm").await.len(), 1);
        fixture
    }

    /// Cuts the connection after some more bytes of the server.
    fn cut_after(&self, bytes: u64) {
        // There is one connection: no caller waits for changes.
        let after = self.proxy.traffic().back + bytes;
        let direction = Direction::Back;
        self.proxy.set_cut(Some(Cut { direction, after }));
    }

    /// Waits until the server has the sent data, even if its reply was lost.
    async fn wait_until_received(&self) {
        self.proxy.set_cut(None);
        self.wait_until_back().await;
    }
}

// Cut before the first byte of the reply, in the middle of it, and near its end: the jobs were
// claimed without the worker's knowledge, and return when the lease expires.
#[tokio::test]
async fn a_claim_with_a_lost_reply_returns_after_its_lease() {
    for bytes in [0, 40, 400] {
        let fixture = ProxyFixture::warm().await;
        fixture.submit("a", 20).await.expect("submitted");
        fixture.cut_after(bytes);
        let error = claim(&fixture.store, "lost", 20).await.expect_err("cut");
        assert!(error.is_doubtful(), "{error}");
        fixture.wait_until_received().await;
        let counts = fixture.store.job_counts().await.expect("counts");
        assert_eq!((counts.in_flight, counts.queued), (20, 0), "after {bytes}");
        let begun = Instant::now();
        while fixture.store.reap(100, 3).await.expect("reaped").returned == 0 {
            assert!(begun.elapsed() < LEASE * 2, "they never came back");
            sleep(Duration::from_millis(10)).await;
        }
        let jobs = claim(&fixture.store, "next", 20).await.expect("claimed");
        assert!(jobs.iter().all(|job| job.attempt == 2), "{jobs:?}");
        assert_eq!(settle(&fixture.store, "next", &jobs).await.expect("settled").len(), 20);
        fixture.assert_balanced().await;
    }
}

// The settlement was applied; repeated it finds nothing to settle, and each job counts once.
#[tokio::test]
async fn a_settlement_with_a_lost_reply_counts_once() {
    for bytes in [0, 10, 60] {
        let fixture = ProxyFixture::warm().await;
        fixture.submit("a", 20).await.expect("submitted");
        let jobs = claim(&fixture.store, "s", 20).await.expect("claimed");
        fixture.cut_after(bytes);
        let error = settle(&fixture.store, "s", &jobs).await.expect_err("cut");
        assert!(error.is_doubtful(), "{error}");
        fixture.wait_until_received().await;
        let again = settle(&fixture.store, "s", &jobs).await.expect("settled");
        assert!(again.iter().all(|one| *one == SettleResult::Fenced), "{again:?}");
        assert_eq!(
            fixture.store.job_counts().await.expect("counts").done,
            21,
            "after {bytes}"
        );
        fixture.assert_balanced().await;
    }
}

// Now for a submission: the names are known when it is repeated.
#[tokio::test]
async fn a_submission_with_a_lost_reply_is_accepted_once() {
    let fixture = ProxyFixture::warm().await;
    fixture.cut_after(3);
    assert!(fixture.submit("a", 20).await.expect_err("cut").is_doubtful());
    fixture.wait_until_received().await;
    fixture.submit("a", 20).await.expect("submitted");
    assert_eq!(fixture.store.job_counts().await.expect("counts").queued, 20);
    fixture.assert_balanced().await;
}

// Fifty milliseconds each way: slower, and nothing else. With a second each way no call of half a
// second can be answered, each ends in time, and all works again afterwards.
#[tokio::test]
async fn a_slow_network_delays_calls_and_a_very_slow_one_times_them_out() {
    let fixture = ProxyFixture::new(ServerOptions::default()).await;
    fixture
        .proxy
        .set_link(LinkLatency::from_delay(Duration::from_millis(50)));
    fixture.submit("a", 20).await.expect("submitted");
    assert_eq!(fixture.work_off("s").await.len(), 20);
    fixture.proxy.set_link(LinkLatency::from_delay(Duration::from_secs(1)));
    for _ in 0..3 {
        let begun = Instant::now();
        let error = fixture.submit("b", 5).await.expect_err("too slow");
        assert!(error.is_passing(), "{error}");
        assert!(begun.elapsed() < CALL_TIMEOUT * 3, "{:?}", begun.elapsed());
    }
    fixture.proxy.set_link(LinkLatency::default());
    let again = async { while fixture.submit("b", 5).await.is_err() {} };
    timeout(RECOVERY_TIME, again).await.expect("back");
    assert_eq!(fixture.work_off("s").await.len(), 5);
    fixture.assert_balanced().await;
}

// Nothing arrives and no error is reported: calls time out, in both directions of the silence.
#[tokio::test]
async fn a_silently_dead_connection_is_noticed() {
    let there = NetConditions::OneWay { lost: Direction::There };
    let back = NetConditions::OneWay { lost: Direction::Back };
    for weather in [NetConditions::Blackhole, there, back] {
        let fixture = ProxyFixture::new(ServerOptions::default()).await;
        fixture.submit("a", 10).await.expect("submitted");
        fixture.proxy.set_conditions(weather).await;
        for _ in 0..2 {
            let call = timeout(CALL_TIMEOUT * 3, fixture.submit("b", 10));
            let error = call.await.expect("in time").expect_err("silence");
            assert!(error.is_passing(), "{error}");
        }
        fixture.proxy.set_conditions(NetConditions::Clear).await;
        fixture.wait_until_back().await;
        let again = async { while fixture.submit("b", 10).await.is_err() {} };
        timeout(RECOVERY_TIME, again).await.expect("back");
        // Delayed data that arrives at last is known by its names.
        sleep(Duration::from_millis(50)).await;
        assert_eq!(
            fixture.store.job_counts().await.expect("counts").queued,
            20,
            "{weather:?}"
        );
        fixture.assert_balanced().await;
    }
}

// A waiter on a silently dead connection is notified again after the reconnect.
#[tokio::test]
async fn a_dead_subscription_recovers() {
    let fixture = ProxyFixture::new(ServerOptions::default()).await;
    timeout(RECOVERY_TIME, fixture.store.changed())
        .await
        .expect("it begins to listen");
    fixture.proxy.set_conditions(NetConditions::Blackhole).await;
    let held_up = timeout(Duration::from_millis(300), fixture.store.changed()).await;
    assert!(held_up.is_err(), "nothing can have been heard");
    fixture.proxy.set_conditions(NetConditions::Clear).await;
    fixture.proxy.reset_all();
    let heard = async {
        let changed = fixture.store.changed();
        while fixture.submit("a", 1).await.is_err() {}
        changed.await;
    };
    timeout(RECOVERY_TIME * 2, heard).await.expect("heard");
}

// A hundred resets while jobs run: each is done once and counts once.
#[tokio::test]
async fn a_hundred_connection_resets_lose_nothing() {
    let fixture = ProxyFixture::new(ServerOptions::default()).await;
    let (mut acked, mut done) = (0, 0);
    for round in 0..100_u64 {
        let word = format!("r{round}");
        fixture.cut_after((round * 37) % 600);
        let _either_way = fixture.submit(&word, 5).await;
        let _either_way = claim(&fixture.store, &word, 5).await;
        fixture.wait_until_received().await;
        while fixture.submit(&word, 5).await.is_err() {}
        acked += 5;
        if let Ok(jobs) = claim(&fixture.store, "s", 5).await {
            done += settle(&fixture.store, "s", &jobs).await.expect("settled").len();
        }
    }
    let counts = fixture.store.job_counts().await.expect("counts");
    assert_eq!(counts.submitted(), acked);
    assert_eq!(counts.done, u64::try_from(done).expect("few"));
    fixture.assert_balanced().await;
}
