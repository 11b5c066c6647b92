//! The Postman collection: generated, stored in `docs/postman`, and run.
//!
//! The file is compared with its generated form, so the two cannot differ. The order follows a first visit:
//! probes, queries, calls, control, then the limiter with its permit.

mod generate;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use outflow_testkit::Process;
use serde_json::Value;

use self::generate::{FOLDERS, collection, operations};
use super::support::{QUIET, STOCK, TestProgram};

/// A stream without an end, for which no request runner can wait.
const ENDLESS: &str = "events";

// To regenerate the file, run this test and copy the file that it names.
#[test]
fn the_collection_matches_the_openapi_document() {
    let made = collection(&document());
    let kept = std::fs::read_to_string(folder().join(COLLECTION)).unwrap_or_default();
    let text = format!("{}\n", serde_json::to_string_pretty(&made).expect("JSON"));
    if kept != text {
        let generated = Path::new(env!("CARGO_TARGET_TMPDIR")).join(COLLECTION);
        std::fs::write(&generated, text).expect("a file");
        panic!(
            "docs/postman is not what the document makes: copy {}",
            generated.display()
        );
    }
}

#[test]
fn the_collection_has_every_operation_except_the_stream() {
    for (_, _, operation) in operations(&document()) {
        let id = operation["operationId"].as_str().expect("an id");
        let is_listed = FOLDERS.iter().any(|(_, ids)| ids.contains(&id));
        assert!(id == ENDLESS || is_listed, "{id}");
    }
}

// With bulk jobs, all folders run. Plain `serve` and `dev` are tested as programs, in `recipes/postman.rs`.
#[tokio::test(flavor = "multi_thread")]
async fn newman_runs_the_collection_with_bulk_jobs() {
    let stock = STOCK.replace("3/min", "30/min");
    let running = TestProgram::with_bulk(&format!("{QUIET}{stock}")).await;
    let mut newman = Command::new("newman");
    newman
        .arg("run")
        .arg(folder().join(COLLECTION))
        .arg("--environment")
        .arg(folder().join(ENVIRONMENT))
        .args(["--env-var", &format!("base=http://{}", running.address())])
        .args(["--env-var", &format!("calls={}", running.program.sidecar())])
        .args(["--bail", "--disable-unicode", "--color", "off"]);
    let mut newman = Process::start(newman).expect("newman is installed: npm install --global newman");
    let ended = newman.wait(Duration::from_mins(1)).expect("an end");
    let lines: Vec<_> = newman.lines().iter().map(|line| line.text.clone()).collect();
    assert!(ended.success(), "{}", lines.join("\n"));
    assert!(running.stop().await);
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/postman")
}

fn document() -> Value {
    serde_json::from_str(include_str!("../../../../admin/src/page/openapi.json")).expect("JSON")
}

const COLLECTION: &str = "outflow.postman_collection.json";
const ENVIRONMENT: &str = "outflow.postman_environment.json";
