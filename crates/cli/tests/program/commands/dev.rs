//! `outflow dev`.

use std::process::Command;
use std::time::Duration;

use outflow_testkit::Process;

use super::support::{command, document, fetch, folder, run};
use crate::support::PATIENCE;

fn dev(flags: &[&str]) -> Process {
    let mut arguments = vec!["dev", "--port", "0", "--admin-port", "0"];
    arguments.extend_from_slice(flags);
    let mut command = command(folder().path().parent().expect("a parent"), &arguments);
    // Variables of the user concern other APIs.
    command.env("OUTFLOW_APIS__NOSUCH__TIMEOUT", "nonsense");
    Process::start(command).expect("it starts")
}

fn interrupt(process: &mut Process) {
    let id = process.id().to_string();
    let sent = Command::new("kill").args(["-s", "INT", &id]).status();
    assert!(sent.expect("there is a kill").success());
}

// Twenty calls during a burst of twenty take four seconds at 10/s.
#[test]
fn dev_serves_every_url_of_its_banner_within_the_limits() {
    let mut process = dev(&["--json"]);
    process.wait_for_line("\"metrics\"", PATIENCE).expect("a banner");
    let banner = document(&mut process);
    let url = |key: &str| banner[key].as_str().expect("a URL").to_owned();
    for number in 0..20 {
        let (status, answer) = fetch(&format!("{}/demo/{number}", url("calls")));
        assert_eq!(status, 200, "{answer}");
    }
    assert_eq!(fetch(&format!("{}/healthz", url("admin"))).0, 200);
    let (_, metrics) = fetch(&url("metrics"));
    assert!(metrics.contains("api=\"demo\"") && metrics.contains("api=\"flaky\""));
    interrupt(&mut process);
    let demo = process.wait_for_line("demo allows 10/s", Duration::from_secs(2));
    let demo = demo.expect("a summary, soon");
    assert!(demo.contains("at most 10 in any second, and throttled 0"), "{demo}");
    let flaky = process.wait_for_line("flaky allows 5/s", PATIENCE).expect("a summary");
    assert!(flaky.ends_with("throttled 0"), "{flaky}");
    assert_eq!(process.wait(PATIENCE).expect("it ends").code(), Some(0));
}

// The key is Outflow's: a call past it gets 401, and calls through it use up the tokens.
#[test]
fn dev_refuses_calls_past_outflow_without_a_key() {
    let mut process = dev(&["--json", "--no-load"]);
    process.wait_for_line("\"metrics\"", PATIENCE).expect("a banner");
    let banner = document(&mut process);
    let apis = banner["apis"].as_array().expect("a list");
    let chat = apis.iter().find(|api| api["name"] == "chat").expect("listed");
    let url = |key: &str| format!("{}/chat/completions", chat[key].as_str().expect("a URL"));
    let (status, answer) = fetch(&url("upstream"));
    assert_eq!(status, 401, "{answer}");
    assert!(answer.contains("invalid_api_key"), "{answer}");
    // A GET has no prompt, but it has the key.
    assert_eq!(fetch(&url("calls")).0, 400);
}

#[test]
fn dev_without_load_sends_only_the_users_calls() {
    let mut process = dev(&["--no-load"]);
    let line = process.wait_for_line("  curl ", PATIENCE).expect("a banner");
    let url = line.split_whitespace().nth(1).expect("a URL").to_owned();
    let (status, answer) = fetch(&url);
    assert_eq!(status, 200, "the first line to try works: {answer}");
    interrupt(&mut process);
    let demo = process.wait_for_line("demo allows", PATIENCE).expect("a summary");
    assert!(demo.contains("it saw 1 calls"), "{demo}");
}

#[test]
fn the_program_reports_a_taken_port() {
    let mut process = dev(&["--json", "--no-load"]);
    process.wait_for_line("\"metrics\"", PATIENCE).expect("a banner");
    let calls = document(&mut process)["calls"].as_str().expect("a URL").to_owned();
    let port = calls.rsplit(':').next().expect("a port");
    let ran = run(&["dev", "--port", port, "--admin-port", "0"]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.talk.contains("--port 0") && ran.talk.contains(port), "{ran:?}");
}
