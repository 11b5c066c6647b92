//! `outflow serve --bulk` in a process that is suspended for a while, as on a paused machine.

use std::time::Duration;

use super::bulk_serve::{BulkProgram, jobs};

// At 20/s, three seconds of suspension are sixty missed starts. They are lost: afterwards no second sees more
// than twenty.
#[test]
fn a_suspended_program_does_not_catch_up() {
    let mut program = BulkProgram::start(&["--limit", "20/s"], "limits = [\"20/s\"]");
    program.jobs("jobs.ndjson", &jobs("acme", 160));
    program.output(&["submit", "jobs.ndjson", "--action", "a"]);
    let done = |program: &BulkProgram| program.json(&["status"])["jobs"]["done"].as_u64();
    while done(&program) < Some(20) {}
    let process = &mut program.served.process;
    process.freeze().expect("a signal");
    let frozen = process.wait(Duration::from_secs(3));
    frozen.expect_err("it stands still");
    process.thaw().expect("a signal");
    assert!(done(&program) < Some(100), "it was frozen in the middle");
    program.output(&["watch", "a"]);
    let seen = program.mock.end();
    assert_eq!((&seen["seen"], &seen["refused"]), (&160.into(), &0.into()));
    let most = seen["limits"][0]["most_in_any_window"].as_u64();
    assert!(most.expect("a number") <= 20, "{seen}");
}
