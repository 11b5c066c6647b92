//! `outflow serve`.

use std::time::Duration;

use outflow_testkit::Process;
use tempfile::TempDir;

use super::support::{MockProcess, command, configured, fetch, folder, run_in};
use crate::support::PATIENCE;

pub(crate) struct ServeProcess {
    pub(crate) process: Process,
    pub(crate) calls: String,
    pub(crate) admin: String,
}

pub(crate) fn serve(folder: &TempDir, flags: &[&str]) -> ServeProcess {
    let mut arguments = vec!["serve", "--listen", ":0", "--admin", ":0"];
    arguments.extend_from_slice(flags);
    let command = command(folder.path(), &arguments);
    let mut process = Process::start(command).expect("it starts");
    let mut find_url = |what: &str| {
        let line = process.wait_for_line(what, PATIENCE).expect("a banner");
        let url = line.split_whitespace().nth(1).expect("a URL");
        url.trim_end_matches("/NAME/PATH").trim_end_matches('/').to_owned()
    };
    let (calls, admin) = (find_url("calls "), find_url("operation "));
    ServeProcess { process, calls, admin }
}

#[test]
fn serve_serves_its_configuration_until_a_signal() {
    let mock = MockProcess::start(&[]);
    let folder = configured(&mock.config("limits = [\"10/s\"]"));
    let mut served = serve(&folder, &["--workers", "1"]);
    served
        .process
        .wait_for_line("(10/s)", PATIENCE)
        .expect("what it allows is in the banner");
    let (status, answer) = fetch(&format!("{}/up/a", served.calls));
    assert_eq!(status, 200, "{answer}");
    assert_eq!(fetch(&format!("{}/healthz", served.admin)).0, 200);
    served.process.terminate().expect("a signal");
    let ended = served.process.wait(PATIENCE).expect("it ends");
    assert_eq!(ended.code(), Some(0));
    assert_eq!(mock.end()["seen"], 1);
}

// The changed file has two errors: the output lists each once, below one headline.
#[test]
fn reload_prints_each_error_of_a_refused_file_once() {
    let text = "[apis.a]\nbase_url = \"http://127.0.0.1:9\"\n";
    let folder = configured(text);
    let served = serve(&folder, &[]);
    let broken = format!("{text}timeout = 5\nmax_wait = 6\n");
    std::fs::write(folder.path().join("outflow.toml"), broken).expect("writable");
    let ran = run_in(folder.path(), &["reload", "--admin", &served.admin]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    let first = ran.talk.lines().next();
    assert_eq!(
        first,
        Some("error: the previous configuration stays in effect:"),
        "{ran:?}"
    );
    assert_eq!(ran.talk.matches("error: a duration").count(), 2, "{ran:?}");
}

#[test]
fn the_program_reports_a_taken_port() {
    let folder = configured("[apis.a]\nbase_url = \"http://127.0.0.1:9\"\n");
    let first = serve(&folder, &[]);
    let taken = first.calls.trim_start_matches("http://").to_owned();
    let second = run_in(folder.path(), &["serve", "--listen", &taken, "--admin", ":0"]);
    assert_eq!(second.code, Some(1), "{second:?}");
    assert!(second.talk.contains("perhaps another outflow"), "{second:?}");
}

#[test]
fn serve_without_a_file_says_how_to_create_one() {
    let ran = run_in(folder().path(), &["serve"]);
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(ran.talk.contains("outflow init"), "{ran:?}");
    let ran = run_in(folder().path(), &["serve", "-c", "mine.toml"]);
    assert!(ran.talk.contains("`mine.toml`"), "{ran:?}");
}

#[test]
fn serve_checks_flags_like_configuration_lines() {
    let folder = configured("[apis.a]\nbase_url = \"http://127.0.0.1:9\"\n");
    for (flags, said) in [
        (["--listen", "nonsense"], "--> --listen:1"),
        (["--workers", "0"], "--> --workers:1"),
        (["--listen", "0.0.0.0:0"], "every client that reaches this address"),
        (["--auto-recover", "15"], "needs its unit"),
    ] {
        let mut arguments = vec!["serve"];
        arguments.extend_from_slice(&flags);
        let ran = run_in(folder.path(), &arguments);
        assert_eq!(ran.code, Some(2), "{ran:?}");
        assert!(ran.talk.contains(said), "{said} in {ran:?}");
    }
}

// The first call stores the response. A recovery every second would leave the offline state, if a timer
// could.
#[test]
fn offline_makes_no_call_and_the_cache_answers() {
    let mock = MockProcess::start(&[]);
    let config = mock.config("cache = { force = \"1h\" }") + "[cache]\ndir = \"kept\"\n";
    let folder = configured(&config);
    assert_eq!(run_in(folder.path(), &["get", "up", "/kept"]).code, Some(0));
    let mut served = serve(&folder, &["--offline", "--auto-recover", "1s"]);
    let said = served.process.wait_for_line("offline: no call", PATIENCE);
    said.expect("it says so");
    let (status, answer) = fetch(&format!("{}/up/kept", served.calls));
    assert_eq!(status, 200, "{answer}");
    for number in 0..5 {
        let (status, answer) = fetch(&format!("{}/up/{number}", served.calls));
        assert!(status >= 500, "{answer}");
    }
    served.process.terminate().expect("a signal");
    served.process.wait(PATIENCE).expect("it ends");
    assert_eq!(mock.end()["seen"], 1, "the one before");
}

#[test]
fn serve_prints_warnings_and_starts() {
    let text = "[apis.a]\nbase_url = \"http://127.0.0.1:9\"\nkey = \"bearer\"\n";
    let folder = configured(text);
    let mut served = serve(&folder, &[]);
    let lines = served.process.lines();
    let reported = lines.iter().any(|line| line.text.contains("there is no key"));
    assert!(reported, "{lines:?}");
    served.process.terminate().expect("a signal");
    let ended = served.process.wait(Duration::from_secs(5)).expect("soon");
    assert_eq!(ended.code(), Some(0));
}

// The changed file stays unread for longer than the watch takes to settle; a hangup reloads it.
#[test]
fn serve_without_a_watch_reloads_only_on_request() {
    let folder = configured("[apis.a]\nbase_url = \"http://127.0.0.1:9\"\n");
    let mut served = serve(&folder, &["--no-watch"]);
    let text = "[apis.b]\nbase_url = \"http://127.0.0.1:9\"\n";
    std::fs::write(folder.path().join("outflow.toml"), text).expect("written");
    let read = served
        .process
        .wait_for_line("configuration reloaded", Duration::from_millis(500));
    assert!(read.is_err(), "{read:?}");
    served.process.hang_up().expect("a signal");
    let read = served.process.wait_for_line("configuration reloaded", PATIENCE);
    assert!(read.expect("read").contains("added b"));
}

// A file has no folder below it, and root cannot create one either.
#[test]
fn serve_reports_a_log_that_cannot_be_written() {
    let text = "[log]\nfile = \"outflow.toml/below.log\"\n[apis.a]\nbase_url = \"http://127.0.0.1:9\"\n";
    let folder = configured(text);
    let mut served = serve(&folder, &[]);
    let reported = served.process.wait_for_line("cannot write the log", PATIENCE);
    reported.expect("it says so");
}

// The configuration is a pipe: the program waits for its text, and reads nothing before the signal.
#[test]
fn a_hangup_before_the_start_does_not_end_the_program() {
    let folder = folder();
    let pipe = folder.path().join("outflow.toml");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.expect("mkfifo").success());
    let serve = ["serve", "--no-watch", "--listen", ":0", "--admin", ":0"];
    let mut process = Process::start(command(folder.path(), &serve)).expect("it starts");
    let status = format!("/proc/{}/status", process.id());
    let is_caught = (0..2_000).any(|_| {
        let lives = process.wait(Duration::from_millis(10));
        lives.is_err() && catches_hangups(&std::fs::read_to_string(&status).expect("a process"))
    });
    assert!(is_caught, "SIGHUP would end the program");
    process.hang_up().expect("a signal");
    let text = "[log]\nlevel = \"off\"\n[apis.a]\nbase_url = \"http://127.0.0.1:9\"\n";
    std::fs::write(&pipe, text).expect("read by the program");
    process.wait_for_line("operation ", PATIENCE).expect("it started");
}

/// Returns true if the process has a handler of SIGHUP, which is signal 1.
fn catches_hangups(status: &str) -> bool {
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let caught = caught.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    caught.is_some_and(|mask| mask & 1 == 1)
}
