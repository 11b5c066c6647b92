//! Failover to another server.

use std::collections::BTreeSet;
use std::time::Duration;

use outflow_core::Rate;
use outflow_store::{
    AllowAll, ClaimRequest, JobQueue, ReplicaWait, StoreControl, StoreLimits, TenantRule, TenantStore,
};
use outflow_testkit::{FaultProxy, NetConditions, RedisOptions as ServerOptions, RedisServer};
use tokio::time::{Instant, sleep, timeout};

use super::support::{LEASE, ProxyFixture, RECOVERY_TIME, claim, name, setting, settle};

/// Options of a server that replicates at once.
pub(crate) fn primary() -> ServerOptions {
    ServerOptions {
        settings: vec![setting("repl-diskless-sync-delay", 0)],
        ..ServerOptions::default()
    }
}

/// Starts a replica of the server at this address.
pub(crate) fn replica_of(address: std::net::SocketAddr) -> RedisServer {
    let of = format!("{} {}", address.ip(), address.port());
    let settings = vec![
        setting("replicaof", of),
        setting("repl-diskless-sync-delay", 0),
        setting("min-replicas-to-write", 1),
        setting("min-replicas-max-lag", 2),
    ];
    let replica = RedisServer::start(ServerOptions {
        settings,
        ..ServerOptions::default()
    });
    replica.expect("a replica")
}

pub(crate) async fn copies(primary: &RedisServer) {
    let copies = async {
        while !primary
            .command(&["INFO", "replication"])
            .expect("read")
            .contains("state=online")
        {
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(Duration::from_secs(20), copies).await.expect("a copy");
}

/// Waits until a replica has all writes of its primary. `WAIT` only covers writes of its own
/// connection.
pub(crate) async fn wait_until_replicated(primary: &RedisServer, replica: &RedisServer) {
    let has = |server: &RedisServer| -> u64 {
        let info = server.command(&["INFO", "replication"]).expect("read");
        let mut lines = info.lines();
        let offset = lines.find_map(|line| line.strip_prefix("master_repl_offset:"));
        offset.expect("an offset").trim().parse().expect("a number")
    };
    let all = has(primary);
    let heard = async {
        while has(replica) < all {
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(RECOVERY_TIME, heard).await.expect("heard");
}

/// Runs confirmed submissions through failovers, each in the middle of one. Returns the numbers of
/// confirmed and of doubtful submissions.
async fn failovers(rounds: u32) -> (usize, usize) {
    let confirm = ReplicaWait {
        count: 1,
        timeout: Duration::from_millis(300),
    };
    let mut fixture = ProxyFixture::with(primary(), |options| options.wait_replicas = Some(confirm)).await;
    let mut replica = replica_of(fixture.server.address().expect("a port"));
    copies(&fixture.server).await;
    fixture
        .server
        .command(&["CONFIG", "SET", "min-replicas-to-write", "1"])
        .expect("set");
    let (mut confirmed, mut doubtful, mut number) = (BTreeSet::new(), 0, 0);
    for round in 0..rounds {
        // Anywhere in some of the first calls.
        let fall = Duration::from_micros(2_000 + u64::from(round) * 7_919 % 38_000);
        let mut hand_in = async |store: &outflow_store::RedisStore, until_it_works: bool| {
            loop {
                number += 1;
                let word = format!("w{number}");
                match super::support::submit(store, &word, 5).await {
                    Ok(()) => {
                        confirmed.extend((0..5).map(|n| format!("{word}-{n}")));
                        if until_it_works {
                            return;
                        }
                    }
                    Err(error) => {
                        assert!(error.is_passing(), "{error}");
                        doubtful += 5;
                        if !until_it_works {
                            return;
                        }
                    }
                }
            }
        };
        // Submits until the first failure, because the primary dies meanwhile.
        tokio::join!(hand_in(&fixture.store, false), async {
            sleep(fall).await;
            fixture.server.kill().expect("killed");
        });
        replica.command(&["REPLICAOF", "NO", "ONE"]).expect("promoted");
        let address = replica.address().expect("a port");
        fixture.proxy.set_server(address);
        fixture.proxy.reset_all();
        let next = replica_of(address);
        fixture.server = std::mem::replace(&mut replica, next);
        copies(&fixture.server).await;
        timeout(RECOVERY_TIME, hand_in(&fixture.store, true))
            .await
            .expect("back");
    }
    // Calls without confirmation use another connection, which has been idle since.
    fixture.wait_until_back().await;
    fixture.assert_balanced().await;
    let kept: BTreeSet<String> = fixture.work_off("s").await.into_iter().collect();
    let lost: Vec<_> = confirmed.difference(&kept).collect();
    assert!(
        lost.is_empty(),
        "{} of {} confirmed: {lost:?}",
        lost.len(),
        confirmed.len()
    );
    fixture.assert_balanced().await;
    (confirmed.len(), doubtful)
}

#[tokio::test]
async fn confirmed_jobs_survive_failovers() {
    let (confirmed, _) = failovers(3).await;
    assert!(confirmed > 15, "{confirmed}");
}

#[tokio::test]
#[ignore = "minutes: fifty failovers"]
async fn stress_confirmed_jobs_survive_fifty_failovers() {
    let (confirmed, doubtful) = failovers(50).await;
    println!("50 failovers: {confirmed} confirmed and kept, {doubtful} in doubt");
}

// The replica lags for a while, and is still promoted. Without confirmation acknowledged jobs are
// lost, and the store reports it; with confirmation every call was doubtful.
#[tokio::test]
async fn without_confirmation_a_failover_loses_unreplicated_jobs() {
    for wait in [None, Some(1)] {
        let confirm = wait.map(|count| ReplicaWait {
            count,
            timeout: Duration::from_millis(100),
        });
        let mut fixture = ProxyFixture::with(primary(), |options| {
            options.wait_replicas = confirm;
        })
        .await;
        let way = FaultProxy::start(fixture.server.address().expect("a port"));
        let way = way.await.expect("a proxy");
        let replica = replica_of(way.address());
        copies(&fixture.server).await;
        // Repeated if a loaded machine's replica is late: the jobs have names.
        let before = async { while fixture.submit("before", 10).await.is_err() {} };
        timeout(RECOVERY_TIME, before).await.expect("submitted");
        wait_until_replicated(&fixture.server, &replica).await;
        way.set_conditions(NetConditions::Blackhole).await;
        let mut answered = 0;
        for batch in 0..10 {
            match fixture.submit(&format!("b{batch}"), 10).await {
                Ok(()) => answered += 10,
                Err(error) => assert!(error.is_doubtful(), "{error}"),
            }
        }
        fixture.proxy.reset_all();
        fixture.wait_until_back().await;
        assert_eq!(fixture.store.take_warning(), None, "the same server as before");
        fixture.server.kill().expect("killed");
        replica
            .command(&["CONFIG", "SET", "min-replicas-to-write", "0"])
            .expect("set");
        replica.command(&["REPLICAOF", "NO", "ONE"]).expect("promoted");
        fixture.proxy.set_server(replica.address().expect("a port"));
        fixture.proxy.reset_all();
        fixture.wait_until_back().await;
        let warning = fixture.store.take_warning().expect("another server");
        assert!(warning.contains("another redis took over"), "{warning}");
        assert_eq!(
            warning.contains("may be missing") && warning.contains("set wait_replicas"),
            wait.is_none(),
            "{warning}"
        );
        assert_eq!(fixture.store.take_warning(), None, "it is reported once");
        let kept = fixture.store.job_counts().await.expect("counts").queued;
        let lost = answered + 10 - kept;
        // 100 without confirmation, none with it.
        assert_eq!((answered, lost), if wait.is_none() { (100, 100) } else { (0, 0) });
        fixture.assert_balanced().await;
    }
}

// A primary without reachable replicas may have been replaced without knowing. It accepts writes
// for the tolerated silence of a replica, here a second, and then refuses; refused jobs are not
// there.
#[tokio::test]
async fn a_primary_without_its_replicas_accepts_nothing() {
    let fixture = ProxyFixture::new(primary()).await;
    let way = FaultProxy::start(fixture.server.address().expect("a port"));
    let way = way.await.expect("a proxy");
    let _replica = replica_of(way.address());
    copies(&fixture.server).await;
    for (name, value) in [("min-replicas-to-write", "1"), ("min-replicas-max-lag", "1")] {
        let set = fixture.server.command(&["CONFIG", "SET", name, value]);
        set.expect("set");
    }
    let submit = async |word: String| fixture.submit(&word, 1).await;
    let heard = async { while submit("first".to_owned()).await.is_err() {} };
    timeout(RECOVERY_TIME, heard).await.expect("heard");
    let jobs = claim(&fixture.store, "s", 1).await.expect("claimed");
    way.set_conditions(NetConditions::Blackhole).await;
    let mut acked = 0;
    let refused = async {
        for number in 0.. {
            match submit(format!("n{number}")).await {
                Ok(()) => acked += 1,
                Err(error) => return error,
            }
            sleep(Duration::from_millis(20)).await;
        }
        unreachable!("numbers never end")
    };
    let error = timeout(RECOVERY_TIME, refused).await.expect("refused");
    assert!(error.is_passing() && !error.is_doubtful(), "{error}");
    let error = settle(&fixture.store, "s", &jobs).await.expect_err("refused");
    assert!(error.is_passing() && !error.is_doubtful(), "{error}");
    let error = claim(&fixture.store, "s", 1).await.expect_err("refused");
    assert!(error.is_passing() && !error.is_doubtful(), "{error}");
    let counts = fixture.store.job_counts().await.expect("it can be read");
    assert_eq!((counts.queued, counts.in_flight), (acked, 1));
    fixture.assert_balanced().await;
    way.set_conditions(NetConditions::Clear).await;
    way.reset_all();
    let again = async { while submit("after".to_owned()).await.is_err() {} };
    timeout(RECOVERY_TIME, again).await.expect("back");
    let counts = fixture.store.job_counts().await.expect("counts");
    assert_eq!((counts.queued, counts.in_flight), (acked + 1, 1));
    fixture.assert_balanced().await;
}

// No replica confirms the submission, so the server waits for the whole timeout; other calls are
// answered meanwhile.
#[tokio::test]
async fn waiting_for_replicas_blocks_no_other_call() {
    let confirm = ReplicaWait {
        count: 1,
        timeout: Duration::from_millis(450),
    };
    let fixture = ProxyFixture::with(primary(), |options| options.wait_replicas = Some(confirm)).await;
    let waits = || {
        let info = fixture.server.command(&["INFO", "clients"]).expect("read");
        info.contains("blocked_clients:1")
    };
    let meanwhile = async {
        while !waits() {
            sleep(Duration::from_millis(1)).await;
        }
        fixture.store.job_counts().await.expect("answered");
        assert!(waits(), "it was answered after the wait");
    };
    let (submitted, ()) = tokio::join!(fixture.submit("a", 1), meanwhile);
    assert!(submitted.expect_err("no copy").is_doubtful());
    fixture.assert_balanced().await;
}

/// Ten in this window, and none ahead.
const WINDOW: Duration = Duration::from_millis(1_500);

/// Claims as soon as the store allows until enough jobs start, and returns their starts. Their calls arrive at
/// once.
async fn starts(fixture: &ProxyFixture, many: usize) -> Vec<Instant> {
    let mut starts = Vec::new();
    while starts.len() < many {
        let request = ClaimRequest {
            lane: name("api"),
            session: name("s"),
            max: 1,
            lease: LEASE,
            recoveries: 2,
            limits: Some(StoreLimits::default()),
            cost: None,
        };
        let claims = fixture.store.claim(request, &mut AllowAll).await.expect("claimed");
        starts.extend(claims.jobs.iter().map(|_| Instant::now()));
        if claims.jobs.is_empty() {
            sleep(claims.next.unwrap_or(Duration::from_millis(1))).await;
        }
    }
    starts
}

// The replica has one start of ten, and is promoted. By its count nine more may start at once: 19
// in a second and a half. So nothing starts for one window after the failover, and then it
// continues.
#[tokio::test]
async fn limits_stay_closed_for_a_window_after_a_failover() {
    let mut fixture = ProxyFixture::new(primary()).await;
    let way = FaultProxy::start(fixture.server.address().expect("a port"));
    let way = way.await.expect("a proxy");
    let replica = replica_of(way.address());
    copies(&fixture.server).await;
    let rule = TenantRule {
        rate: Some(Rate::new(10, WINDOW).expect("a rate")),
        ..TenantRule::default()
    };
    fixture.store.set_default_rule(rule).await.expect("ruled");
    fixture.submit("a", 30).await.expect("submitted");
    let mut before = starts(&fixture, 1).await;
    wait_until_replicated(&fixture.server, &replica).await;
    way.set_conditions(NetConditions::Blackhole).await;
    before.extend(starts(&fixture, 9).await);
    fixture.server.kill().expect("killed");
    replica
        .command(&["CONFIG", "SET", "min-replicas-to-write", "0"])
        .expect("set");
    let promoted = Instant::now();
    replica.command(&["REPLICAOF", "NO", "ONE"]).expect("promoted");
    fixture.proxy.set_server(replica.address().expect("a port"));
    fixture.proxy.reset_all();
    fixture.wait_until_back().await;
    // Nine: the one that the replica knows is still in flight.
    let after = timeout(WINDOW + RECOVERY_TIME, starts(&fixture, 9)).await;
    let after = after.expect("it goes on");
    assert!(after[0] >= promoted + WINDOW, "{:?} of {WINDOW:?}", after[0] - promoted);
    let all = [before, after].concat();
    for eleven in all.windows(11) {
        let span = eleven[10] - eleven[0];
        assert!(span > WINDOW, "eleven starts in {span:?}");
    }
    fixture.assert_balanced().await;
}
