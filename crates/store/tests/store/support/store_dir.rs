//! Embedded store with a manual clock.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use outflow_core::{Clock, ManualClock, Nanos, WallTime};
use outflow_store::EmbeddedStore;
use tokio::runtime::Builder;

use crate::contract::World;

/// Store in a temporary directory, with a manual clock.
pub(crate) struct Room {
    pub(crate) store: EmbeddedStore,
    pub(crate) clock: Arc<ManualClock>,
}

impl World for Room {
    type Store = EmbeddedStore;

    fn store(&self) -> &EmbeddedStore {
        &self.store
    }

    fn unit(&self) -> Duration {
        Duration::from_secs(1)
    }

    fn wall(&self) -> WallTime {
        self.clock.wall()
    }

    async fn pass(&self, span: Duration) {
        self.clock.advance(span);
    }
}

/// Makes a clock at an arbitrary time.
pub(crate) fn clock() -> Arc<ManualClock> {
    let wall = WallTime::from_unix_secs(1_700_000_000);
    Arc::new(ManualClock::new(Nanos::from_secs(100), wall))
}

/// Opens the store in a directory, runs a closure on it, and closes it.
pub(crate) fn within<T>(
    dir: &Path,
    clock: Arc<ManualClock>,
    act: impl AsyncFnOnce(&Room) -> T,
) -> T {
    let (store, writer) = EmbeddedStore::open(dir, clock.clone()).expect("a store");
    let room = Room { store, clock };
    std::thread::scope(|threads| {
        threads.spawn(|| writer.run());
        // Ends the writer when the test panics, too.
        let room = room;
        let runtime = Builder::new_current_thread()
            .enable_time()
            .build()
            .expect("a runtime");
        runtime.block_on(act(&room))
    })
}
