//! The Postman collection: generated from the OpenAPI document, stored in `docs/postman`, and run.
//!
//! The file is compared with its generated form, so the two cannot differ. The order follows a first visit:
//! probes, queries, control, then the limiter with its permit.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use outflow_testkit::Process;
use serde_json::{Value, json};

use super::support::{QUIET, STOCK, TestProgram};

/// The operations in the order of the run. A permit is used once, so there are two.
const ORDER: &[&str] = &[
    "alive",
    "ready",
    "metrics",
    "document",
    "snapshot",
    "apis",
    "api",
    "limits",
    "explain",
    "tasks",
    "config",
    "force",
    "release",
    "set",
    "reload",
    "audit",
    "check",
    "acquire",
    "settle",
    "acquire",
    "refund",
    // The tenant is paused first, so that its job can still be cancelled at the end.
    "bulk_open",
    "bulk_tenant_pause",
    "bulk_submit",
    "bulk",
    "bulk_tenants",
    "bulk_tenant",
    "bulk_history",
    "bulk_actions",
    "bulk_action",
    "bulk_results",
    "bulk_action_pause",
    "bulk_action_resume",
    "bulk_tenant_release",
    "bulk_tenant_reset",
    "bulk_action_close",
    "bulk_dead",
    "bulk_dead_retry",
    "bulk_dead_purge",
    "bulk_action_cancel",
    "bulk_tenant_cancel",
    "bulk_tenant_resume",
];

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
        assert!(id == ENDLESS || ORDER.contains(&id), "{id}");
    }
}

// Newman runs the collection against the program, and every response must match the document.
#[tokio::test(flavor = "multi_thread")]
async fn newman_runs_the_collection_without_failures() {
    let stock = STOCK.replace("3/min", "30/min");
    let running = TestProgram::with_bulk(&format!("{QUIET}{stock}")).await;
    let mut newman = Command::new("newman");
    newman
        .arg("run")
        .arg(folder().join(COLLECTION))
        .arg("--environment")
        .arg(folder().join(ENVIRONMENT))
        .arg("--env-var")
        .arg(format!("base=http://{}", running.address()))
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

fn collection(document: &Value) -> Value {
    let items: Vec<_> = ORDER
        .iter()
        .map(|id| {
            let all = operations(document).into_iter();
            let mut all = all.filter(|(_, _, operation)| operation["operationId"] == *id);
            let (method, path, operation) = all.next().expect("it is in the document");
            item(method, path, operation, document)
        })
        .collect();
    let schema = "https://schema.getpostman.com/json/collection/v2.1.0/collection.json";
    json!({
        "info": { "name": document["info"]["title"], "schema": schema,
                  "description": document["info"]["description"] },
        "auth": { "type": "bearer", "bearer": [{ "key": "token", "value": "{{token}}" }] },
        "item": items,
    })
}

/// Returns method, path and operation.
fn operations(document: &Value) -> Vec<(&str, &str, &Value)> {
    let paths = document["paths"].as_object().expect("paths").iter();
    let all = paths.flat_map(|(path, item)| {
        let methods = item.as_object().expect("an item").iter();
        let methods = methods.filter(|(name, _)| *name != "parameters");
        methods.map(|(method, operation)| (method.as_str(), path.as_str(), operation))
    });
    all.collect()
}

fn item(method: &str, path: &str, operation: &Value, document: &Value) -> Value {
    let mut request = json!({
        "method": method.to_uppercase(),
        "description": operation["summary"],
        "header": [],
        "url": url(path, operation),
    });
    let example = &operation["requestBody"]["content"]["application/json"]["example"];
    if !example.is_null() {
        let text = serde_json::to_string_pretty(example).expect("JSON");
        request["header"] = json!([{ "key": "Content-Type", "value": "application/json" }]);
        request["body"] = json!({ "mode": "raw", "raw": text });
    }
    json!({
        "name": operation["summary"],
        "request": request,
        "event": [{ "listen": "test", "script": {
            "type": "text/javascript", "exec": script(operation, document) } }],
    })
}

fn url(path: &str, operation: &Value) -> String {
    let given = operation["parameters"].as_array().into_iter().flatten();
    let given = given.filter(|parameter| !parameter["example"].is_null());
    let given: Vec<_> = given
        .map(|parameter| {
            let value = parameter["example"].to_string().replace('"', "").replace(' ', "%20");
            format!("{}={value}", parameter["name"].as_str().expect("a name"))
        })
        .collect();
    let query = if given.is_empty() {
        String::new()
    } else {
        format!("?{}", given.join("&"))
    };
    let query = query.replace("api=stock", "api={{api}}");
    let path = path.replace("{api}", "{{api}}");
    let path = path.replace("{tenant}", "acme").replace("{action}", "nightly");
    format!("{{{{base}}}}{path}{query}")
}

/// Renders the checks of a response: its status and its required members.
fn script(operation: &Value, document: &Value) -> Vec<String> {
    let responses = operation["responses"].as_object().expect("responses");
    let (status, good) = responses.iter().next().expect("a response");
    let mut lines = vec![format!(
        "pm.test(\"answers {status}\", () => pm.response.to.have.status({status}));"
    )];
    let schema = &good["content"]["application/json"]["schema"]["$ref"];
    let schema = schema
        .as_str()
        .and_then(|pointer| document.pointer(pointer.trim_start_matches('#')));
    if let Some(promised) = schema.map(|schema| &schema["required"]) {
        lines.push(format!(
            "pm.test(\"holds its required members\", () => \
             pm.expect(pm.response.json()).to.include.all.keys({promised}));"
        ));
    }
    if operation["operationId"] == "acquire" {
        lines.push("pm.environment.set(\"permit\", pm.response.json().permit);".to_owned());
    }
    lines
}

const COLLECTION: &str = "outflow.postman_collection.json";
const ENVIRONMENT: &str = "outflow.postman_environment.json";
