//! Random histories of both stores against a naive one.

mod history;

use std::sync::Arc;
use std::time::Duration;

use crate::contract::World;
use crate::support::store_dir::{clock, within};
use history::{Event, Naive, event, happen};
use outflow_core::WallTime;
use outflow_store::{JobQueue, RedisOptions, RedisStore, StoreControl};
use outflow_testkit::{Keep, RedisOptions as ServerOptions, RedisServer};
use proptest::test_runner::{Config, TestRunner};
use tokio::runtime::Builder;

/// Runs random histories of up to 60 events.
fn histories(cases: u32, happens: impl Fn(&[Event])) {
    let config = Config {
        cases,
        failure_persistence: None,
        ..Config::default()
    };
    let histories = proptest::collection::vec(event(), 1..60);
    let ran = TestRunner::new(config).run(&histories, |events| {
        happens(&events);
        Ok(())
    });
    assert!(
        ran.is_ok(),
        "{}",
        ran.err()
            .map_or_else(String::new, |error| error.to_string())
    );
}

// 48 histories with restarts: some hundred jobs and several pages each.
#[test]
fn a_store_is_a_list_that_is_slower_to_lose() {
    histories(48, |events| {
        let dir = tempfile::tempdir().expect("a directory");
        let (time, mut naive) = (clock(), Naive::default());
        let mut rest = events;
        while !rest.is_empty() {
            let happened = within(dir.path(), Arc::clone(&time), async |room| {
                room.store.reap(9_999, 1_000).await.expect("reaped");
                naive.take_back();
                happen(room, &mut naive, rest).await
            });
            rest = &rest[happened..];
        }
    });
}

/// Store on a server whose time the test moves: delayed jobs are brought nearer.
struct Far {
    server: RedisServer,
    store: RedisStore,
}

impl World for Far {
    type Store = RedisStore;

    fn store(&self) -> &RedisStore {
        &self.store
    }

    // Long enough that no job of a history becomes due by itself.
    fn unit(&self) -> Duration {
        Duration::from_hours(1)
    }

    fn wall(&self) -> WallTime {
        unreachable!("no event of a history has a civil time")
    }

    // The fourth number of a lane is the time of its next check for due jobs.
    async fn pass(&self, span: Duration) {
        let script = "local by = tonumber(ARGV[1])
            for _, key in ipairs({ '{outflow}:d:mail', '{outflow}:o:t0', '{outflow}:o:t1', '{outflow}:o:t2' }) do
              for _, job in ipairs(redis.call('ZRANGE', key, 0, -1)) do redis.call('ZINCRBY', key, -by, job) end
            end
            local lane = redis.call('HGET', '{outflow}:w:mail', '')
            if lane then
              local at = struct.unpack('>d', lane, 25)
              if at > 0 then
                lane = string.sub(lane, 1, 24) .. struct.pack('>d', math.max(1, at - by)) .. string.sub(lane, 33)
                redis.call('HSET', '{outflow}:w:mail', '', lane)
              end
            end return 1";
        let micros = span.as_micros().to_string();
        let moved = self.server.command(&["EVAL", script, "0", &micros]);
        moved.expect("moved");
    }
}

impl Far {
    /// Runs a history with restarts of the server. Claims survive them: their session lives
    /// elsewhere.
    async fn happen(&mut self, mut rest: &[Event]) {
        let mut naive = Naive::default();
        loop {
            let happened = happen(self, &mut naive, rest).await;
            rest = rest.get(happened..).expect("no more than there were");
            if rest.is_empty() {
                return;
            }
            self.server.restart().expect("restarted");
            while let Err(error) = self.store.job_counts().await {
                assert!(error.is_passing(), "{error}");
            }
        }
    }
}

// The number takes some seconds, each history on a server of its own.
#[test]
fn a_shared_store_is_a_list_that_is_slower_to_lose() {
    histories(16, far);
}

#[test]
#[ignore = "minutes: a thousand servers"]
fn stress_a_shared_store_is_a_list_that_is_slower_to_lose() {
    histories(1_000, far);
}

fn far(events: &[Event]) {
    let runtime = Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let server = RedisServer::start(ServerOptions {
            keep: Keep::EveryWrite,
            ..ServerOptions::default()
        })
        .expect("a server");
        let store = RedisStore::connect(RedisOptions::new(server.url())).await;
        let store = store.expect("connected");
        Far { server, store }.happen(events).await;
    });
}
