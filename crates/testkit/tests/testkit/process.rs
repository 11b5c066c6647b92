//! Laws of child programs: their output is read, signals arrive, and nothing outlives a test.

use std::io::ErrorKind;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::time::Duration;

use outflow_testkit::{Output, Process};

/// For events that should happen at once, on a machine that may be busy.
const SOON: Duration = Duration::from_secs(10);

/// For events that should not happen.
const A_WHILE: Duration = Duration::from_millis(100);

fn shell(script: &str) -> Process {
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    Process::start(command).expect("every machine has a shell")
}

#[test]
fn lines_arrive_in_order_with_their_source() {
    let mut process = shell("echo one; echo two; echo three >&2; exit 3");
    assert_eq!(process.wait(SOON).unwrap().code(), Some(3));
    // Two threads read the outputs: one may finish before the other has begun.
    let mut on = |to| -> Vec<_> {
        process
            .last_lines(SOON)
            .iter()
            .filter(|line| line.to == to)
            .cloned()
            .collect()
    };
    let out: Vec<_> = on(Output::Out).into_iter().map(|line| line.text).collect();
    assert_eq!(out, ["one", "two"]);
    assert_eq!(on(Output::Err).len(), 1);
}

#[test]
fn a_line_is_waited_for_once() {
    let mut process = shell("echo tick 1; echo tick 2; exec sleep 60");
    assert_eq!(process.wait_for_line("tick", SOON).unwrap(), "tick 1");
    assert_eq!(process.wait_for_line("tick", SOON).unwrap(), "tick 2");
    let late = process.wait_for_line("tick", A_WHILE).unwrap_err();
    assert_eq!(late.kind(), ErrorKind::TimedOut);
    assert!(late.to_string().contains("tick 2"), "{late}");
}

#[test]
fn waiting_for_a_line_ends_with_the_program() {
    let mut process = shell("echo goodbye");
    let ended = process.wait_for_line("hello", Duration::from_mins(5)).unwrap_err();
    assert_eq!(ended.kind(), ErrorKind::UnexpectedEof);
    assert!(ended.to_string().contains("goodbye"), "{ended}");
}

// More than a pipe holds: a program with unread output would block.
#[test]
fn much_output_does_not_block_a_program() {
    let mut process = shell("seq 1 200000; echo done");
    process.wait_for_line("done", SOON).unwrap();
    assert_eq!(process.lines().len(), 200_001);
}

#[test]
fn kill_and_terminate_send_different_signals() {
    let mut killed = shell("trap 'echo cleaned up' TERM; echo ready; while :; do sleep 0.01; done");
    killed.wait_for_line("ready", SOON).unwrap();
    killed.terminate().unwrap();
    killed.wait_for_line("cleaned up", SOON).unwrap();
    assert_eq!(killed.status().unwrap(), None);
    killed.kill().unwrap();
    assert_eq!(killed.wait(SOON).unwrap().signal(), Some(9));
    killed.kill().expect("killing a dead process succeeds");
}

#[test]
fn waiting_for_a_program_has_a_timeout() {
    let mut process = shell("exec sleep 60");
    assert_eq!(process.wait(A_WHILE).unwrap_err().kind(), ErrorKind::TimedOut);
}

// It prints every 10 ms: all that was printed before it froze has long arrived after a while.
#[test]
fn a_frozen_program_stops_and_continues() {
    let mut process = shell("while :; do echo tick; sleep 0.01; done");
    process.wait_for_line("tick", SOON).unwrap();
    process.freeze().unwrap();
    assert!(process.wait_for_line("never", A_WHILE).is_err());
    let before = process.lines().len();
    assert!(process.wait_for_line("never", A_WHILE).is_err());
    assert_eq!(process.lines().len(), before);
    process.thaw().unwrap();
    process.wait_for_line("tick", SOON).unwrap();
}

#[test]
fn child_processes_end_with_their_program() {
    let mut process = shell("sleep 300 & echo $!; wait");
    let child = process.wait_for_line("", SOON).unwrap();
    drop(process);
    wait_until_gone(&child);
}

// The test runs itself: its other self starts a program, reports it and is killed.
#[test]
fn a_killed_test_ends_its_programs() {
    const OTHER_SELF: &str = "OUTFLOW_TESTKIT_OTHER_SELF";
    if std::env::var_os(OTHER_SELF).is_some() {
        let process = shell("exec sleep 300");
        println!("\nstarted {}", process.id());
        loop {
            std::thread::park();
        }
    }
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "process::a_killed_test_ends_its_programs", "--nocapture"])
        .env(OTHER_SELF, "yes");
    let mut other_self = Process::start(command).unwrap();
    let line = other_self.wait_for_line("started ", SOON).unwrap();
    other_self.kill().unwrap();
    other_self.wait(SOON).unwrap();
    wait_until_gone(line.trim_start_matches("started "));
}

#[test]
fn a_missing_program_is_an_error() {
    let missing = Process::start(Command::new("outflow-no-such-program")).unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::NotFound);
}

/// A dead process may still be listed until its parent collects it, but without a command line.
fn wait_until_gone(id: &str) {
    let looks = format!("while tr '\\0' x </proc/{id}/cmdline | grep -q .; do sleep 0.01; done");
    let mut looking = shell(&looks);
    looking.wait(SOON).expect("it is gone");
}
