//! The embedded store keeps the contract of a job store.

#[cfg(test)]
#[path = "contract/suite.rs"]
#[macro_use]
mod contract;
#[cfg(test)]
#[path = "embedded/alone.rs"]
mod alone;
#[cfg(test)]
#[path = "support/room.rs"]
mod room;

use room::{Room, clock, within};

fn run(law: impl AsyncFnOnce(&Room)) {
    let dir = tempfile::tempdir().expect("a directory");
    within(dir.path(), clock(), law);
}

contract!(run);

#[test]
#[ignore = "a million jobs on a disk"]
fn stress_a_million_jobs_of_one_kind_do_not_delay_ten_of_another() {
    run(async |world| contract::claiming::a_flood_delays_nobody(world, 1_000_000).await);
}
