//! Networks that are slow, cut replies, or go silent.

use std::time::Duration;

use outflow_store::{JobQueue, SettleResult, StoreControl};
use outflow_testkit::{Cut, Direction, LinkLatency, NetConditions, RedisOptions as ServerOptions};
use tokio::time::{Instant, sleep, timeout};

use super::support::{BACK_WITHIN, LEASE, PATIENCE, Room, claim, settle};

impl Room {
    /// Connects to a server that knows all scripts: then a cut hits a reply and not the script
    /// upload.
    async fn warm() -> Self {
        let room = Self::new(ServerOptions::default()).await;
        room.submit("warm", 1).await.expect("submitted");
        assert_eq!(room.work_off("warm").await.len(), 1);
        room
    }

    /// Cuts the connection after some more bytes of the server.
    fn cut_after(&self, bytes: u64) {
        // There is one connection: no caller waits for changes.
        let after = self.proxy.traffic().back + bytes;
        let direction = Direction::Back;
        self.proxy.set_cut(Some(Cut { direction, after }));
    }

    /// Waits until the server has the sent data, even if its reply was lost.
    async fn mended(&self) {
        self.proxy.set_cut(None);
        self.back().await;
    }
}

// Cut before the first byte of the reply, in the middle of it, and near its end: the jobs were
// claimed without the worker's knowledge, and return when the lease expires.
#[tokio::test]
async fn a_claim_whose_answer_is_lost_comes_back_after_its_lease() {
    for bytes in [0, 40, 400] {
        let room = Room::warm().await;
        room.submit("a", 20).await.expect("submitted");
        room.cut_after(bytes);
        let error = claim(&room.store, "lost", 20).await.expect_err("cut");
        assert!(error.is_doubtful(), "{error}");
        room.mended().await;
        let tally = room.store.job_counts().await.expect("tally");
        assert_eq!((tally.in_flight, tally.queued), (20, 0), "after {bytes}");
        let begun = Instant::now();
        while room.store.reap(100, 3).await.expect("reaped").returned == 0 {
            assert!(begun.elapsed() < LEASE * 2, "they never came back");
            sleep(Duration::from_millis(10)).await;
        }
        let jobs = claim(&room.store, "next", 20).await.expect("claimed");
        assert!(jobs.iter().all(|job| job.attempt == 2), "{jobs:?}");
        assert_eq!(
            settle(&room.store, "next", &jobs)
                .await
                .expect("settled")
                .len(),
            20
        );
        room.balanced().await;
    }
}

// The settlement was applied; repeated it finds nothing to settle, and each job counts once.
#[tokio::test]
async fn a_settlement_whose_answer_is_lost_counts_once() {
    for bytes in [0, 10, 60] {
        let room = Room::warm().await;
        room.submit("a", 20).await.expect("submitted");
        let jobs = claim(&room.store, "s", 20).await.expect("claimed");
        room.cut_after(bytes);
        let error = settle(&room.store, "s", &jobs).await.expect_err("cut");
        assert!(error.is_doubtful(), "{error}");
        room.mended().await;
        let again = settle(&room.store, "s", &jobs).await.expect("settled");
        assert!(
            again.iter().all(|one| *one == SettleResult::Fenced),
            "{again:?}"
        );
        assert_eq!(
            room.store.job_counts().await.expect("tally").done,
            21,
            "after {bytes}"
        );
        room.balanced().await;
    }
}

// Now for a submission: the names are known when it is repeated.
#[tokio::test]
async fn a_submission_whose_answer_is_lost_is_taken_once() {
    let room = Room::warm().await;
    room.cut_after(3);
    assert!(room.submit("a", 20).await.expect_err("cut").is_doubtful());
    room.mended().await;
    room.submit("a", 20).await.expect("submitted");
    assert_eq!(room.store.job_counts().await.expect("tally").queued, 20);
    room.balanced().await;
}

// Fifty milliseconds each way: slower, and nothing else. With a second each way no call of half a
// second can be answered, each ends in time, and all works again afterwards.
#[tokio::test]
async fn a_slow_way_slows_and_a_very_slow_one_ends_calls_in_time() {
    let room = Room::new(ServerOptions::default()).await;
    room.proxy
        .set_link(LinkLatency::from_delay(Duration::from_millis(50)));
    room.submit("a", 20).await.expect("submitted");
    assert_eq!(room.work_off("s").await.len(), 20);
    room.proxy
        .set_link(LinkLatency::from_delay(Duration::from_secs(1)));
    for _ in 0..3 {
        let begun = Instant::now();
        let error = room.submit("b", 5).await.expect_err("too slow");
        assert!(error.is_passing(), "{error}");
        assert!(begun.elapsed() < PATIENCE * 3, "{:?}", begun.elapsed());
    }
    room.proxy.set_link(LinkLatency::default());
    let again = async { while room.submit("b", 5).await.is_err() {} };
    timeout(BACK_WITHIN, again).await.expect("back");
    assert_eq!(room.work_off("s").await.len(), 5);
    room.balanced().await;
}

// Nothing arrives and no error is reported: calls time out, in both directions of the silence.
#[tokio::test]
async fn a_way_that_ends_without_a_word_is_noticed() {
    let there = NetConditions::OneWay {
        lost: Direction::There,
    };
    let back = NetConditions::OneWay {
        lost: Direction::Back,
    };
    for weather in [NetConditions::Blackhole, there, back] {
        let room = Room::new(ServerOptions::default()).await;
        room.submit("a", 10).await.expect("submitted");
        room.proxy.set_conditions(weather).await;
        for _ in 0..2 {
            let call = timeout(PATIENCE * 3, room.submit("b", 10));
            let error = call.await.expect("in time").expect_err("silence");
            assert!(error.is_passing(), "{error}");
        }
        room.proxy.set_conditions(NetConditions::Clear).await;
        room.back().await;
        let again = async { while room.submit("b", 10).await.is_err() {} };
        timeout(BACK_WITHIN, again).await.expect("back");
        // Delayed data that arrives at last is known by its names.
        sleep(Duration::from_millis(50)).await;
        assert_eq!(
            room.store.job_counts().await.expect("tally").queued,
            20,
            "{weather:?}"
        );
        room.balanced().await;
    }
}

// A waiter on a silently dead connection is notified again after the reconnect.
#[tokio::test]
async fn a_bell_that_went_silent_rings_again() {
    let room = Room::new(ServerOptions::default()).await;
    timeout(BACK_WITHIN, room.store.changed())
        .await
        .expect("it begins to listen");
    room.proxy.set_conditions(NetConditions::Blackhole).await;
    let held_up = timeout(Duration::from_millis(300), room.store.changed()).await;
    assert!(held_up.is_err(), "nothing can have been heard");
    room.proxy.set_conditions(NetConditions::Clear).await;
    room.proxy.reset_all();
    let heard = async {
        let changed = room.store.changed();
        while room.submit("a", 1).await.is_err() {}
        changed.await;
    };
    timeout(BACK_WITHIN * 2, heard).await.expect("heard");
}

// A hundred resets while jobs run: each is done once and counts once.
#[tokio::test]
async fn a_way_that_breaks_a_hundred_times_loses_nothing() {
    let room = Room::new(ServerOptions::default()).await;
    let (mut acked, mut done) = (0, 0);
    for round in 0..100_u64 {
        let word = format!("r{round}");
        room.cut_after((round * 37) % 600);
        let _either_way = room.submit(&word, 5).await;
        let _either_way = claim(&room.store, &word, 5).await;
        room.mended().await;
        while room.submit(&word, 5).await.is_err() {}
        acked += 5;
        if let Ok(jobs) = claim(&room.store, "s", 5).await {
            done += settle(&room.store, "s", &jobs)
                .await
                .expect("settled")
                .len();
        }
    }
    let tally = room.store.job_counts().await.expect("tally");
    assert_eq!(tally.submitted(), acked);
    assert_eq!(tally.done, u64::try_from(done).expect("few"));
    room.balanced().await;
}
