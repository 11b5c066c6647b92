//! The Redis store keeps the contract of a job store, also on Valkey.

use std::time::Duration;

use outflow_core::WallTime;
use outflow_store::RedisStore;
use outflow_testkit::{RedisOptions as ServerOptions, ServerFlavor};
use tokio::runtime::Builder;

use super::{RedisFixture, server_time};
use crate::contract::{self, StoreWorld};

impl StoreWorld for RedisFixture {
    type Store = RedisStore;

    fn store(&self) -> &RedisStore {
        &self.store
    }

    // Several round trips of a loaded machine.
    fn unit(&self) -> Duration {
        Duration::from_millis(40)
    }

    fn wall_time(&self) -> WallTime {
        WallTime::since_epoch(Duration::from_micros(server_time(&self.server)))
    }

    async fn advance(&self, span: Duration) {
        tokio::time::sleep(span).await;
    }
}

fn run_on(flavor: ServerFlavor, law: impl AsyncFnOnce(&RedisFixture)) {
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let options = ServerOptions {
            flavor,
            ..ServerOptions::default()
        };
        law(&RedisFixture::with(options).await).await;
    });
}

fn run(law: impl AsyncFnOnce(&RedisFixture)) {
    run_on(ServerFlavor::Redis, law);
}

contract!(run);

#[test]
#[ignore = "a million jobs in a server"]
fn stress_a_million_jobs_do_not_delay_ten_of_another_tenant() {
    run(async |world| contract::claim::a_flood_delays_no_other_tenant(world, 1_000_000).await);
}

mod valkey {
    use super::{RedisFixture, ServerFlavor, run_on};

    fn run(law: impl AsyncFnOnce(&RedisFixture)) {
        run_on(ServerFlavor::Valkey, law);
    }

    contract!(run);
}
