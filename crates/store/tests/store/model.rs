//! Random histories of both stores against a naive one.

mod history;

use std::sync::Arc;
use std::time::Duration;

use crate::contract::StoreWorld;
use crate::support::store_dir::{clock, within};
use history::{HistoryEvent, NaiveStore, apply_events, event};
use outflow_core::WallTime;
use outflow_store::{JobQueue, RedisOptions, RedisStore, StoreControl};
use outflow_testkit::{Keep, RedisOptions as ServerOptions, RedisServer};
use proptest::test_runner::{Config, TestRunner};
use tokio::runtime::Builder;

/// Runs random histories of up to 60 events.
fn histories(cases: u32, run: impl Fn(&[HistoryEvent])) {
    let config = Config {
        cases,
        failure_persistence: None,
        ..Config::default()
    };
    let histories = proptest::collection::vec(event(), 1..60);
    let ran = TestRunner::new(config).run(&histories, |events| {
        run(&events);
        Ok(())
    });
    assert!(
        ran.is_ok(),
        "{}",
        ran.err().map_or_else(String::new, |error| error.to_string())
    );
}

// 48 histories with restarts: some hundred jobs and several pages each.
#[test]
fn the_embedded_store_agrees_with_a_plain_list() {
    histories(48, |events| {
        let dir = tempfile::tempdir().expect("a directory");
        let (time, mut naive) = (clock(), NaiveStore::default());
        let mut rest = events;
        while !rest.is_empty() {
            let applied = within(dir.path(), Arc::clone(&time), async |fixture| {
                fixture.store.reap(9_999, 1_000).await.expect("reaped");
                naive.take_back();
                apply_events(fixture, &mut naive, rest).await
            });
            rest = &rest[applied..];
        }
    });
}

/// Store on a server whose time the test moves: delayed jobs are brought nearer.
struct RedisWorld {
    server: RedisServer,
    store: RedisStore,
}

impl StoreWorld for RedisWorld {
    type Store = RedisStore;

    fn store(&self) -> &RedisStore {
        &self.store
    }

    // Long enough that no job of a history becomes due by itself.
    fn unit(&self) -> Duration {
        Duration::from_hours(1)
    }

    fn wall_time(&self) -> WallTime {
        unreachable!("no event of a history has a civil time")
    }

    // The fourth number of a lane is the time of its next check for due jobs.
    async fn advance(&self, span: Duration) {
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

impl RedisWorld {
    /// Runs a history with restarts of the server. Claims survive them: their session lives
    /// elsewhere.
    async fn run_history(&mut self, mut rest: &[HistoryEvent]) {
        let mut naive = NaiveStore::default();
        loop {
            let applied = apply_events(self, &mut naive, rest).await;
            rest = rest.get(applied..).expect("no more than there were");
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
fn the_redis_store_agrees_with_a_plain_list() {
    histories(16, run_on_redis);
}

#[test]
#[ignore = "minutes: a thousand servers"]
fn stress_the_redis_store_agrees_with_a_plain_list() {
    histories(1_000, run_on_redis);
}

fn run_on_redis(events: &[HistoryEvent]) {
    let runtime = Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let server = RedisServer::start(ServerOptions {
            keep: Keep::UntilPowerLoss,
            ..ServerOptions::default()
        })
        .expect("a server");
        let store = RedisStore::connect(RedisOptions::new(server.url())).await;
        let store = store.expect("connected");
        RedisWorld { server, store }.run_history(events).await;
    });
}
