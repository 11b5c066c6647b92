//! The curl commands of the documents, run as written with other ports.

use outflow_mock::{MockApi, MockResponse, Quota};
use serde_json::Value;

use super::support::{RunningProgram, SECOND, run_tool, tool};
use crate::support::root;

/// Returns the commands of a document that call curl, each with its continued lines.
fn commands(document: &str) -> Vec<String> {
    let text = std::fs::read_to_string(root().join(document)).expect("a document");
    let joined = text.replace("\\\n", "");
    let mut inside = false;
    let lines = joined.lines().filter(|line| {
        let fence = line.starts_with("```");
        inside ^= fence;
        inside && !fence
    });
    let calls = lines.filter(|line| line.starts_with("curl ") || line.contains("| xargs "));
    calls.map(str::to_owned).collect()
}

/// Runs a command with the ports of a running program, and fails on an error status.
fn run(line: &str, running: &RunningProgram) -> Option<String> {
    let line = line
        .replace("http://127.0.0.1:7070", &running.calls)
        .replace("http://127.0.0.1:7071", &running.admin)
        .replace("curl ", "curl --fail-with-body ");
    // A shell always exists, so this checks for curl itself.
    let mut curl = tool("curl");
    curl.arg("--version");
    run_tool(curl)?;
    let mut shell = tool("sh");
    shell.args(["-c", &line]);
    run_tool(shell)
}

// Thirty calls at once where 10/s are allowed, as in the first step of the README.
#[test]
fn the_first_step_of_the_readme_works() {
    let mut running = RunningProgram::dev();
    let lines = commands("README.md");
    let [line] = lines.as_slice() else {
        panic!("{lines:?}");
    };
    let Some(text) = run(line, &running) else {
        return;
    };
    assert_eq!(text.matches("200 after").count(), 30, "{text}");
    running.process.terminate().expect("a signal");
    let demo = running.process.wait_for_line("demo allows", SECOND * 5);
    let demo = demo.expect("a summary");
    assert!(
        demo.ends_with("it saw 30 calls, at most 10 in any second, and throttled 0"),
        "{demo}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_documented_curl_commands_work() {
    let api = MockApi::builder()
        .limit(Quota::sliding("100/s".parse().expect("a rate")))
        .answer("/**", MockResponse::ok("{}"))
        .build()
        .expect("valid");
    let server = api.listen().await.expect("a port");
    let section = |name| format!("[apis.{name}]\nbase_url = \"{}\"\n", server.url());
    let running = RunningProgram::serving("", &(section("github") + &section("stock")));
    let mut permit: Option<String> = None;
    let (sidecar, admin) = (commands("docs/sidecar.md"), commands("docs/admin.md"));
    assert!(!sidecar.is_empty() && admin.len() >= 9, "{admin:?}");
    for line in sidecar.into_iter().chain(admin) {
        let endless = line.contains("/v1/events");
        let line = match (&permit, endless) {
            // The stream has no end; the code of curl's timeout shows that it was open.
            (_, true) => line.replace("curl ", "curl -m 1 ") + "; test $? = 28",
            (Some(permit), _) => line.replace("5f0c…", permit),
            (None, _) => line,
        };
        let Some(text) = run(&line, &running) else {
            return;
        };
        if line.contains("/v1/acquire") {
            let document: Value = serde_json::from_str(&text).expect("a document");
            permit = document["permit"].as_str().map(str::to_owned);
        }
        if line.contains("/v1/settle") {
            assert!(text.contains("\"delay_ms\":7000"), "{line}: {text}");
        }
    }
    assert!(permit.is_some());
    assert_eq!(api.audit().count(), 1, "the one call of the sidecar's page");
}
