//! The Postman collection against the program as users start it.

use outflow_mock::{MockApi, MockResponse};

use super::support::{RunningProgram, run_tool, tool};

const FOLDER: &str = "docs/postman";

/// Runs the collection and returns the report.
fn run_collection(running: &RunningProgram) -> Option<String> {
    let mut newman = tool("newman");
    newman
        .args(["run", &format!("{FOLDER}/outflow.postman_collection.json")])
        .args(["--environment", &format!("{FOLDER}/outflow.postman_environment.json")])
        .args(["--env-var", &format!("base={}", running.admin)])
        .args(["--env-var", &format!("calls={}", running.calls)])
        .args(["--disable-unicode", "--color", "off"]);
    run_tool(newman)
}

fn assert_complete(report: &str) {
    for request in [
        "Read one API",
        "Call an API",
        "Refund the permit",
        "Read the counts of all jobs",
    ] {
        assert!(report.contains(request), "{request} in {report}");
    }
    assert!(!report.contains("Submit jobs\n  POST"), "bulk is off: {report}");
}

// `outflow init` and `outflow serve`, with the address of an API and free ports. A second run finds the traces of
// the first one.
#[tokio::test(flavor = "multi_thread")]
async fn newman_runs_the_collection_against_plain_serve() {
    let api = MockApi::builder()
        .answer("/**", MockResponse::ok("{}"))
        .build()
        .expect("valid");
    let server = api.listen().await.expect("a port");
    let running = RunningProgram::initialized(&server.url());
    for _ in 0..2 {
        let Some(report) = run_collection(&running) else {
            return;
        };
        assert_complete(&report);
    }
    assert_eq!(api.audit().count(), 4, "two calls of each run");
}

#[test]
fn newman_runs_the_collection_against_dev() {
    let running = RunningProgram::dev();
    if let Some(report) = run_collection(&running) {
        assert_complete(&report);
    }
}
