//! The store in Redis keeps the contract of a job store, and so it does in Valkey.

#[cfg(test)]
#[path = "contract/suite.rs"]
#[macro_use]
mod contract;

use std::time::Duration;

use contract::World;
use outflow_core::WallTime;
use outflow_store::{Redis, RedisOptions};
use outflow_testkit::{Brand, RedisOptions as ServerOptions, RedisServer};
use tokio::runtime::Builder;

/// A server of its own, in real time.
struct Room {
    server: RedisServer,
    store: Redis,
}

impl World for Room {
    type Store = Redis;

    fn store(&self) -> &Redis {
        &self.store
    }

    // Several round trips of a loaded machine.
    fn unit(&self) -> Duration {
        Duration::from_millis(40)
    }

    fn wall(&self) -> WallTime {
        let ask =
            "local t = redis.call('TIME') return string.format('%.0f', t[1] * 1000000 + t[2])";
        let micros = self.server.ask(&["EVAL", ask, "0"]).expect("a time");
        WallTime::since_epoch(Duration::from_micros(micros.parse().expect("a number")))
    }

    async fn pass(&self, span: Duration) {
        tokio::time::sleep(span).await;
    }
}

fn run_on(brand: Brand, law: impl AsyncFnOnce(&Room)) {
    let runtime = Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let options = ServerOptions {
            brand,
            ..ServerOptions::default()
        };
        let server = RedisServer::start(options).expect("a server");
        let options = RedisOptions::new(server.url());
        let store = Redis::connect(options).await.expect("connected");
        law(&Room { server, store }).await;
    });
}

fn run(law: impl AsyncFnOnce(&Room)) {
    run_on(Brand::Redis, law);
}

contract!(run);

#[test]
#[ignore = "a million jobs in a server"]
fn stress_a_million_jobs_of_one_kind_do_not_delay_ten_of_another() {
    run(async |world| contract::claiming::a_flood_delays_nobody(world, 1_000_000).await);
}

mod valkey {
    use super::{Brand, Room, contract, run_on};

    fn run(law: impl AsyncFnOnce(&Room)) {
        run_on(Brand::Valkey, law);
    }

    contract!(run);
}
