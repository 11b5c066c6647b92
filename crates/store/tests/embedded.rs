//! The embedded store keeps the contract of a job store.

#[cfg(test)]
#[path = "contract/suite.rs"]
#[macro_use]
mod contract;
#[cfg(test)]
#[path = "support/room.rs"]
mod room;

use room::{Room, clock, within};

fn run(law: impl AsyncFnOnce(&Room)) {
    let dir = tempfile::tempdir().expect("a directory");
    within(dir.path(), clock(), law);
}

contract!(run);
