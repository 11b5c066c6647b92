//! `outflow get`, `post`, `put`, `delete` and `request`.

use std::io::Write;
use std::process::Stdio;

use super::support::{MockProcess, RunOutput, command, configured, run_in};

#[test]
fn get_prints_only_the_response() {
    let mock = MockProcess::start(&[]);
    let folder = configured(&mock.config(""));
    let ran = run_in(folder.path(), &["get", "up", "/a?b=c"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(ran.out, "{\"ok\":true}");
    assert!(ran.talk.is_empty(), "{ran:?}");
}

#[test]
fn get_prints_response_and_timing_as_json() {
    let mock = MockProcess::start(&["--latency", "20ms"]);
    let routes = "routes = [{ path = \"/orders/**\", group = \"orders\", cost = 2 }]\n\
                  groups.orders.limits = [\"8/s\"]\nlimits = [\"10/s\"]";
    let folder = configured(&mock.config(routes));
    let document = run_in(folder.path(), &["get", "up", "/orders/1", "--json", "--explain"]).json(0);
    assert_eq!(document["status"], 200);
    assert_eq!(document["body"]["ok"], true);
    assert_eq!(document["headers"]["content-type"], "application/json");
    let timing = &document["timing"];
    assert_eq!((&timing["attempts"], &timing["waited_ms"]), (&1.into(), &0.into()));
    let millis = |name: &str| timing[name].as_u64().expect("a number");
    assert!(millis("first_byte_ms") >= 40, "twenty there and twenty back: {timing}");
    assert!(millis("total_ms") >= millis("first_byte_ms"), "{timing}");
    let explain = &document["explain"];
    assert_eq!((&explain["group"], &explain["cost"]), (&"orders".into(), &2.into()));
    assert_eq!(explain["state"], "Normal");
    let rates: Vec<_> = explain["limits"].as_array().expect("a list").iter().collect();
    assert_eq!((&rates[0]["rate"], &rates[1]["rate"]), (&"10/s".into(), &"8/s".into()));
}

#[test]
fn get_prints_explanations_to_stderr() {
    let mock = MockProcess::start(&[]);
    let folder = configured(&mock.config("limits = [\"10/s\"]"));
    let ran = run_in(folder.path(), &["get", "up", "/", "-i", "--timing", "--explain"]);
    assert!(ran.out.starts_with("HTTP 200 OK\n"), "{ran:?}");
    assert!(ran.out.ends_with("\n\n{\"ok\":true}"), "{ran:?}");
    for part in [
        "group   default",
        "state   Normal",
        "limit   10/s: 0 of 10",
        "attempts    1",
    ] {
        assert!(ran.talk.contains(part), "{part} in {ran:?}");
    }
    let file = folder.path().join("body.json");
    let kept = run_in(folder.path(), &["get", "up", "/", "-o", "body.json"]);
    assert!(kept.out.is_empty(), "{kept:?}");
    assert_eq!(std::fs::read(file).expect("written"), b"{\"ok\":true}");
}

#[test]
fn calls_read_bodies_from_an_argument_a_file_or_a_pipe() {
    let mock = MockProcess::start(&[]);
    let folder = configured(&mock.config(""));
    std::fs::write(folder.path().join("body.txt"), "from a file").expect("writable");
    for arguments in [
        &["post", "up", "/", "-d", "text"][..],
        &["put", "up", "/", "-d", "@body.txt"],
        &["delete", "up", "/"],
        &[
            "request",
            "PATCH",
            "up",
            "/",
            "--json-body",
            "{\"a\":1}",
            "-H",
            "X-A: b",
        ],
    ] {
        let ran = run_in(folder.path(), arguments);
        assert_eq!(ran.code, Some(0), "{ran:?}");
    }
    let mut piped = command(folder.path(), &["post", "up", "/", "-d", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut pipe = piped.stdin.take().expect("a pipe");
    pipe.write_all(b"from a pipe").expect("taken");
    drop(pipe);
    let ran = RunOutput::new(piped.wait_with_output().expect("it ends"));
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(mock.end()["seen"], 5);
}

#[test]
fn check_status_turns_an_error_status_into_an_exit_code() {
    for (status, code) in [("503", 5), ("404", 4)] {
        let mock = MockProcess::start(&["--fail", "100%", "--fail-status", status]);
        let folder = configured(&mock.config("retry_count = 0"));
        let plain = run_in(folder.path(), &["get", "up", "/"]);
        assert_eq!(plain.code, Some(0), "{plain:?}");
        let checked = run_in(folder.path(), &["get", "up", "/", "--check-status"]);
        assert_eq!(checked.code, Some(code), "{checked:?}");
    }
}

// A cost of fifty under a limit of five, and no cache to answer from. A deadline before the limit opens would
// need two calls in one process.
#[test]
fn refused_calls_have_their_own_exit_codes() {
    let mock = MockProcess::start(&[]);
    let folder = configured(&mock.config("limits = [\"5/s\"]"));
    let never = run_in(folder.path(), &["get", "up", "/", "--cost", "50"]);
    assert_eq!(never.code, Some(2), "at no time: {never:?}");
    assert!(never.talk.contains("costs more than 5/s ever allows"), "{never:?}");
    let nowhere = run_in(folder.path(), &["get", "up", "/", "--group", "none"]);
    assert_eq!(nowhere.code, Some(2), "no such group at any time: {nowhere:?}");
    for flags in [&["--offline"][..], &["--cache", "only"]] {
        let mut arguments = vec!["get", "up", "/", "--json"];
        arguments.extend_from_slice(flags);
        let document = run_in(folder.path(), &arguments).json(75);
        assert_eq!(document["blocked"], true, "{document}");
    }
    assert_eq!(mock.end()["seen"], 0, "nothing was sent");
}

// The first call stores the response on disk for a second process.
#[test]
fn offline_calls_read_the_stored_response() {
    let mock = MockProcess::start(&[]);
    let config = mock.config("cache = { force = \"1h\" }") + "[cache]\ndir = \"kept\"\n";
    let folder = configured(&config);
    assert_eq!(run_in(folder.path(), &["get", "up", "/a"]).code, Some(0));
    let kept = run_in(folder.path(), &["get", "up", "/a", "--offline", "--json"]).json(0);
    assert_eq!((&kept["body"]["ok"], &kept["cache"]), (&true.into(), &"hit".into()));
    assert_eq!(kept["timing"]["attempts"], 0);
    assert_eq!(mock.end()["seen"], 1);
}

#[test]
fn calls_reject_invalid_arguments() {
    let folder = configured("[apis.up]\nbase_url = \"http://127.0.0.1:9\"\nretry_count = 0\n");
    for (arguments, said) in [
        (&["get", "down", "/"][..], "use one of up"),
        (&["get", "up", "/", "-H", "no colon"], "-H 'Accept"),
        (&["post", "up", "/", "--json-body", "{"], "not JSON"),
        (&["get", "up", "/", "--deadline", "5"], "needs its unit"),
        (&["get", "up", "/", "--explain", "--group", "none"], "no group `none`"),
    ] {
        let ran = run_in(folder.path(), arguments);
        assert_eq!(ran.code, Some(2), "{ran:?}");
        assert!(ran.talk.contains(said), "{said} in {ran:?}");
    }
    let refused = run_in(folder.path(), &["get", "up", "/"]);
    assert_eq!(refused.code, Some(1), "no server listens there: {refused:?}");
}
