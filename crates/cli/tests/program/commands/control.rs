//! `outflow status`, `limits`, `explain`, `health` and `config show --running`.

use std::io::{Read, Write};
use std::net::TcpListener;

use outflow_testkit::Process;
use serde_json::Value;

use super::support::{RunOutput, command, configured, document, fetch, folder, run};
use crate::support::PATIENCE;

/// A running program and its addresses.
struct DevProcess {
    _process: Process,
    banner: Value,
}

impl DevProcess {
    fn start() -> Self {
        let arguments = ["dev", "--port", "0", "--admin-port", "0", "--no-load", "--json"];
        let command = command(std::path::Path::new("/"), &arguments);
        let mut process = Process::start(command).expect("it starts");
        process.wait_for_line("\"metrics\"", PATIENCE).expect("a banner");
        let banner = document(&mut process);
        Self {
            _process: process,
            banner,
        }
    }

    fn run_with_admin(&self, arguments: &[&str]) -> RunOutput {
        let admin = self.banner["admin"].as_str().expect("a URL");
        run(&[arguments, &["--admin", admin]].concat())
    }

    fn output(&self, arguments: &[&str]) -> String {
        let ran = self.run_with_admin(arguments);
        assert_eq!(ran.code, Some(0), "{ran:?}");
        assert!(ran.talk.is_empty(), "{ran:?}");
        ran.out
    }

    fn json(&self, arguments: &[&str]) -> Value {
        self.run_with_admin(&[arguments, &["--json"]].concat()).json(0)
    }

    fn call(&self, path: &str) -> (u16, String) {
        let calls = self.banner["calls"].as_str().expect("a URL");
        fetch(&format!("{calls}{path}"))
    }
}

// Two of ten calls come first, so that the snapshot shows usage.
#[test]
fn control_commands_show_the_running_program() {
    let running = DevProcess::start();
    running.call("/demo/a");
    running.call("/demo/b");
    let status = running.output(&["status"]);
    for line in ["demo   -      Normal", "flaky  -      Normal", "outflow "] {
        assert!(status.contains(line), "{line} in {status}");
    }
    let limits = running.output(&["limits", "demo"]);
    assert!(limits.contains("10/s") && limits.contains(" of 10 "), "{limits}");
    assert!(!limits.contains("flaky"), "{limits}");
    let snapshot = running.json(&["limits"]);
    assert_eq!(snapshot["apis"].as_array().map(Vec::len), Some(3));
    let explained = running.json(&["explain", "demo", "/a?b=c", "-X", "POST"]);
    assert_eq!(
        (&explained["group"], &explained["decision"]),
        (&"default".into(), &"go".into())
    );
    let never = running.output(&["explain", "demo", "/", "--cost", "11"]);
    assert!(never.contains("decision  never"), "{never}");
}

#[test]
fn health_set_holds_an_api_until_release() {
    let running = DevProcess::start();
    assert_eq!(running.call("/demo/a").0, 200);
    let held = running.output(&["health", "set", "demo", "sleep", "--reason", "a & b"]);
    assert!(held.contains("Sleep (held)"), "{held}");
    assert_ne!(running.call("/demo/a").0, 200, "nothing goes");
    assert!(running.output(&["status"]).contains("Sleep (held)"));
    let explained = running.output(&["explain", "demo", "/a"]);
    assert!(explained.contains("decision  refuse"), "{explained}");
    let released = running.json(&["health", "release", "demo", "--reason", "over"]);
    assert_eq!(released["health"][0]["held"], Value::Null, "{released}");
    assert_eq!(running.call("/demo/a").0, 200, "a probe may go");
}

// The body of a 503 names `outflow status` for the reason, and status had no such column.
#[test]
fn status_shows_the_reason_of_a_503() {
    let running = DevProcess::start();
    running.output(&["health", "set", "demo", "cache-only", "--reason", "a move"]);
    let (status, response) = running.call("/demo/a");
    assert_eq!(status, 503, "{response}");
    let (_, body) = response.split_once("\r\n\r\n").expect("a body");
    let problem: Value = serde_json::from_str(body).expect("a problem");
    let advice = problem["advice"].as_str().expect("advice");
    assert!(advice.contains("`outflow status` shows the reason"), "{advice}");
    let shown = running.output(&["status"]);
    assert!(
        shown.lines().next().is_some_and(|head| head.ends_with("reason")),
        "{shown}"
    );
    let explained = running.output(&["explain", "demo", "/a"]);
    for text in [problem["detail"].as_str().expect("detail"), &shown, &explained] {
        assert!(text.contains("an operator (127.0.0.1) forced CacheOnly "), "{text}");
        assert!(
            text.contains("with the reason \"a move\": `outflow health release` ends it"),
            "{text}"
        );
    }
    let row = shown.lines().find(|line| line.starts_with("demo")).expect("a row");
    assert!(row.contains("release") && row.contains("0 of 0"), "{row}");
}

// A cost of ten needs the whole limit of a second, and a call just before each question used a part of it.
#[test]
fn explain_follows_the_options_of_a_call() {
    let running = DevProcess::start();
    let ended = running.output(&["explain", "demo", "/", "--cost", "11"]);
    assert!(ended.contains("decision  never"), "{ended}");
    for (option, decision) in [
        (&["--priority", "high"][..], "wait"),
        (&["--no-wait"], "refuse"),
        (&["--max-wait", "1ms"], "refuse"),
        (&["--deadline", "1ms"], "refuse"),
    ] {
        running.call("/demo/a");
        let explained = running.json(&[&["explain", "demo", "/", "--cost", "10"][..], option].concat());
        assert_eq!(
            (&explained["decision"], &explained["why"]),
            (&decision.into(), &"limit".into()),
            "{explained}"
        );
    }
}

// Each value as operators write it: times in seconds, counts with a fraction.
#[test]
fn set_changes_every_operating_variable_of_a_running_program() {
    let running = DevProcess::start();
    for (variable, value, key, shown) in [
        ("rate_base", "20.0", "rate_base", "20.0"),
        ("bucket_cap", "30", "bucket_capacity", "30"),
        ("concurrency", "3", "concurrency", "3"),
        ("p_throttle", "0.25", "health.p_throttle", "0.25"),
        ("p_recover", "0.05", "health.p_recover", "0.05"),
        ("n_throttle", "4", "health.n_throttle", "4"),
        ("n_cacheonly", "6", "health.n_cacheonly", "6"),
        ("sleep_min", "2.5", "health.sleep_min", "\"2.5s\""),
        ("sleep_max", "200.0", "health.sleep_max", "\"200.0s\""),
        ("probe_success", "4", "health.probe_success", "4"),
        ("cooldown_factor", "3.0", "health.cooldown_factor", "3.0"),
    ] {
        let set = running.output(&["set", "demo", variable, value, "--reason", "a busy day"]);
        let expected = format!("demo: {variable} = {value}, until the program ends\n");
        assert_eq!(set, expected);
        let config = running.output(&["config", "show", "--running", "--sources"]);
        let line = format!("apis.demo.{key} = {shown}");
        let line = config.lines().find(|one| one.starts_with(&line));
        let line = line.unwrap_or_else(|| panic!("no {key} = {shown} in {config}"));
        assert!(line.contains("# runtime"), "{line}");
    }
    let again = running.output(&["set", "demo", "concurrency", "3"]);
    assert_eq!(again, "demo: concurrency was 3 already; nothing changed\n");
    let limits = running.json(&["set", "demo", "groups.bulk.limits", "[\"4/s\"]"]);
    assert_eq!(limits["changed"], serde_json::json!(["demo"]));
}

#[test]
fn set_refuses_invalid_values_and_changes_nothing() {
    let running = DevProcess::start();
    for (variable, value, words) in [
        ("concurrency", "many", "apis.demo.concurrency"),
        ("concurency", "3", "did you mean `concurrency`?"),
        ("p_throttle", "-1", "apis.demo.health.p_throttle"),
    ] {
        let ran = running.run_with_admin(&["set", "demo", variable, value]);
        assert_eq!(ran.code, Some(1), "{ran:?}");
        assert!(ran.out.is_empty() && ran.talk.contains(words), "{ran:?}");
        assert!(
            ran.talk.contains("the previous configuration stays in effect"),
            "{ran:?}"
        );
    }
    let config = running.output(&["config", "show", "--running", "--sources"]);
    assert!(!config.contains("# runtime"), "{config}");
}

#[test]
fn control_commands_report_unknown_names() {
    let running = DevProcess::start();
    for arguments in [
        &["limits", "nope"][..],
        &["explain", "nope", "/"],
        &["set", "nope", "concurrency", "3"],
        &["health", "set", "nope", "normal"],
        &["health", "set", "demo", "normal", "--group", "nope"],
    ] {
        let ran = running.run_with_admin(arguments);
        assert_eq!(ran.code, Some(1), "{ran:?}");
        assert!(ran.out.is_empty() && ran.talk.starts_with("error: "), "{ran:?}");
    }
    let ran = running.run_with_admin(&["health", "set", "demo", "happy"]);
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(ran.talk.contains("cache-only"), "{ran:?}");
}

#[test]
fn config_show_prints_the_running_configuration_with_sources() {
    let running = DevProcess::start();
    let shown = running.output(&["config", "show", "--running", "--sources"]);
    let limits = shown.lines().find(|line| line.starts_with("apis.demo.limits = "));
    let limits = limits.expect("shown");
    assert!(limits.contains("10/s") && limits.contains("# dev:"), "{limits}");
    assert!(shown.contains("apis.demo.timeout = \"10s\""), "{shown}");
}

#[test]
fn control_commands_read_the_token_from_its_variable() {
    let text = "[server]\nlisten = \":0\"\n[admin]\nlisten = \":0\"\ntoken_env = \"ADMIN\"\n\
                [apis.a]\nbase_url = \"http://127.0.0.1:9\"\n";
    let configured = configured(text);
    let mut command = command(configured.path(), &["serve"]);
    command.env("ADMIN", "a-secret-of-operators");
    let mut process = Process::start(command).expect("it starts");
    let line = process.wait_for_line("operation ", PATIENCE).expect("a banner");
    let admin = line.split_whitespace().nth(1).expect("a URL").to_owned();
    let asked = ["status", "--admin", &admin, "--token-env", "MINE"];
    let without = run(&asked);
    assert_eq!(without.code, Some(1), "{without:?}");
    assert!(without.talk.contains("`MINE`"), "{without:?}");
    let with = super::support::command(folder().path(), &asked)
        .env("MINE", "a-secret-of-operators")
        .output();
    let with = RunOutput::new(with.expect("it starts"));
    assert_eq!(with.code, Some(0), "{with:?}");
}

#[test]
fn commands_without_a_running_program_say_how_to_start_one() {
    // No program listens on port 9.
    for arguments in [
        &["status"][..],
        &["limits"],
        &["explain", "demo", "/"],
        &["health", "set", "demo", "sleep"],
        &["health", "release", "demo"],
        &["reload"],
        &["set", "demo", "concurrency", "3"],
        &["config", "show", "--running"],
    ] {
        let ran = run(&[arguments, &["--admin", "127.0.0.1:9", "--json"]].concat());
        // With `--json` every end prints a document.
        let document = ran.json(1);
        let words = document["error"].as_str().expect("words");
        assert!(ran.talk.contains(words), "{ran:?}");
        assert_eq!(document["exit_code"], 1);
        assert!(
            ran.talk.contains("outflow serve") && ran.talk.contains("because:"),
            "{ran:?}"
        );
    }
}

#[test]
fn control_commands_reject_an_invalid_address() {
    let ran = run(&["status", "--admin", "https://elsewhere"]);
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(ran.talk.contains("http://127.0.0.1:7071"), "{ran:?}");
}

// Another program at that port answers every request with a page.
#[test]
fn status_rejects_a_response_that_is_not_json() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    let ran = std::thread::scope(|threads| {
        threads.spawn(|| {
            let (mut stream, _) = listener.accept().expect("a caller");
            let mut head = [0; 1_024];
            let _some = stream.read(&mut head).expect("a request");
            let page = "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello";
            stream.write_all(page.as_bytes()).expect("written");
        });
        run(&["status", "--admin", &address])
    });
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.out.is_empty(), "{ran:?}");
    assert!(ran.talk.contains("is no admin API"), "{ran:?}");
}

#[test]
fn reload_reports_its_result() {
    let running = DevProcess::start();
    assert_eq!(running.output(&["reload"]), "the configuration was reloaded\n");
    assert_eq!(running.json(&["reload"])["changed"], serde_json::json!([]));
}

// Two projects on one machine: each command asks the program of its own directory, or of the named file.
#[test]
fn operating_commands_ask_the_program_of_their_configuration() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = port.local_addr().expect("an address").to_string();
    drop(port);
    let text = format!(
        "[server]\nlisten = \":0\"\n[admin]\nlisten = \"{address}\"\ntoken_env = \"ADMIN\"\n\
         [apis.mine]\nbase_url = \"http://127.0.0.1:9\"\n"
    );
    let configured = configured(&text);
    let at = |folder: &std::path::Path, arguments: &[&str]| {
        let mut command = command(folder, arguments);
        let output = command.env("ADMIN", "a-secret-of-operators").output();
        RunOutput::new(output.expect("it starts"))
    };
    let absent = at(configured.path(), &["status"]);
    assert_eq!(absent.code, Some(1), "{absent:?}");
    let asked = format!("http://{address} (`admin.listen` of outflow.toml)");
    assert!(absent.talk.contains(&asked), "{absent:?}");

    let mut serve = command(configured.path(), &["serve"]);
    serve.env("ADMIN", "a-secret-of-operators");
    let mut process = Process::start(serve).expect("it starts");
    process.wait_for_line("operation ", PATIENCE).expect("a banner");
    let here = at(configured.path(), &["status"]);
    assert!(here.code == Some(0) && here.out.contains("mine"), "{here:?}");
    let file = configured.path().join("outflow.toml").display().to_string();
    let elsewhere = at(folder().path(), &["limits", "--config", &file]);
    assert!(
        elsewhere.code == Some(0) && elsewhere.out.contains("mine"),
        "{elsewhere:?}"
    );
    let unknown = at(configured.path(), &["limits", "nope"]);
    assert!(unknown.talk.contains(&asked), "{unknown:?}");

    // Another section may have an error: the running program can still be asked.
    std::fs::write(configured.path().join("outflow.toml"), format!("{text}timeuot = 1\n")).expect("writable");
    let broken = at(configured.path(), &["status"]);
    assert!(broken.code == Some(0) && broken.out.contains("mine"), "{broken:?}");
    let missing = at(configured.path(), &["status", "--config", "none.toml"]);
    assert_eq!(missing.code, Some(2), "{missing:?}");
}

// A variable of the health machine, of the rate, and a key of the API.
#[test]
fn set_suggests_the_nearest_name_and_refuses_what_decides_where_calls_go() {
    let running = DevProcess::start();
    for (variable, meant) in [
        ("sleep_mim", "did you mean `sleep_min`?"),
        ("p_throtle", "did you mean `p_throttle`?"),
        ("timeuot", "did you mean `timeout`?"),
        ("groups.orders.limit", "did you mean `limits`?"),
    ] {
        let ran = running.run_with_admin(&["set", "demo", variable, "3"]);
        assert_eq!(ran.code, Some(1), "{ran:?}");
        assert!(ran.talk.contains(meant), "{variable}: {ran:?}");
    }
    for variable in [
        "base_url",
        "api_key",
        "key.header",
        "headers.X",
        "proxy",
        "trust",
        "preset",
    ] {
        let ran = running.run_with_admin(&["set", "demo", variable, "x"]);
        assert_eq!(ran.code, Some(1), "{ran:?}");
        assert!(ran.talk.contains("change it in the file"), "{variable}: {ran:?}");
    }
}
