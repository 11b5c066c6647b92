//! The embedded store keeps the contract of a job store.

use crate::contract;
use crate::support::store_dir::{EmbeddedFixture, clock, within};

pub(crate) fn run(law: impl AsyncFnOnce(&EmbeddedFixture)) {
    let dir = tempfile::tempdir().expect("a directory");
    within(dir.path(), clock(), law);
}

contract!(run);

#[test]
#[ignore = "a million jobs on a disk"]
fn stress_a_million_jobs_do_not_delay_ten_of_another_tenant() {
    run(async |world| contract::claim::a_flood_delays_no_other_tenant(world, 1_000_000).await);
}
