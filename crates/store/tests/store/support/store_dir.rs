//! Embedded store with a manual clock.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use outflow_core::{Clock, ManualClock, Nanos, WallTime};
use outflow_store::EmbeddedStore;
use tokio::runtime::Builder;

use crate::contract::StoreWorld;

/// Store in a temporary directory, with a manual clock.
pub(crate) struct EmbeddedFixture {
    pub(crate) store: EmbeddedStore,
    pub(crate) clock: Arc<ManualClock>,
}

impl StoreWorld for EmbeddedFixture {
    type Store = EmbeddedStore;

    fn store(&self) -> &EmbeddedStore {
        &self.store
    }

    fn unit(&self) -> Duration {
        Duration::from_secs(1)
    }

    fn wall_time(&self) -> WallTime {
        self.clock.wall()
    }

    async fn advance(&self, span: Duration) {
        self.clock.advance(span);
    }
}

/// Makes a clock at an arbitrary time.
pub(crate) fn clock() -> Arc<ManualClock> {
    let wall = WallTime::from_unix_secs(1_700_000_000);
    Arc::new(ManualClock::new(Nanos::from_secs(100), wall))
}

/// Opens the store in a directory, runs a closure on it, and closes it.
pub(crate) fn within<T>(dir: &Path, clock: Arc<ManualClock>, act: impl AsyncFnOnce(&EmbeddedFixture) -> T) -> T {
    let (store, writer) = EmbeddedStore::open(dir, clock.clone()).expect("a store");
    let fixture = EmbeddedFixture { store, clock };
    std::thread::scope(|threads| {
        threads.spawn(|| writer.run());
        // Ends the writer when the test panics, too.
        let fixture = fixture;
        let runtime = Builder::new_current_thread().enable_time().build().expect("a runtime");
        runtime.block_on(act(&fixture))
    })
}
