//! Changes by operators.

use outflow_cli::ConfigSources;
use serde_json::json;

use super::support::{QUIET, TestProgram};

async fn hold(running: &TestProgram, body: serde_json::Value) -> super::support::AdminResponse {
    running.post("/v1/apis/stock/health", &body.to_string()).await
}

// 3/min is below the floor of half speed, so the rate stays and the concurrency halves.
#[tokio::test]
async fn operators_hold_an_api_in_every_allowed_state() {
    let running = TestProgram::start().await;
    for (word, state, circuit, held) in [
        ("throttle", "Throttle", "CLOSED", "throttle"),
        ("cache_only", "CacheOnly", "OPEN", "cache_only"),
        ("sleep", "Sleep", "OPEN", "offline"),
        ("offline", "Sleep", "OPEN", "offline"),
        ("normal", "Normal", "CLOSED", "normal"),
    ] {
        let answer = hold(&running, json!({ "state": word })).await;
        assert_eq!(answer.status, 200, "{word}");
        let health = &answer.json()["health"][0];
        assert_eq!(
            (&health["state"], &health["circuit"], &health["held"]),
            (&json!(state), &json!(circuit), &json!(held)),
            "{word}"
        );
        let line = &running.get("/v1/apis").await.json()["apis"][0];
        assert_eq!((&line["state"], &line["circuit"]), (&json!(state), &json!(circuit)));
    }
    let refused = hold(&running, json!({ "state": "half_open" })).await;
    assert_eq!((refused.status, refused.problem().as_str()), (422, "not_a_hold"));
}

// No timer ends the offline state, so its end is unknown. A release restores the state before.
#[tokio::test]
async fn offline_refuses_calls_until_release() {
    let running = TestProgram::start().await;
    let held = hold(&running, json!({ "state": "offline", "reason": "a move" }))
        .await
        .json();
    assert_eq!(held["health"][0]["until_ms"], 0);
    let blocked = running.post("/v1/acquire", r#"{"api":"stock"}"#).await;
    assert_eq!((blocked.status, blocked.problem().as_str()), (503, "blocked"));
    assert_eq!(blocked.json()["state"], "Sleep");
    let explained = running.get("/v1/explain?api=stock").await.json();
    assert_eq!(
        (&explained["why"], &explained["delay_ms"]),
        (&json!("state"), &json!(null))
    );
    let released = running.delete("/v1/apis/stock/health").await.json();
    assert_eq!(released["health"][0]["held"], json!(null));
    let snapshot = running.get("/v1/apis/stock").await.json();
    assert_eq!(snapshot["health"][0]["held"], json!(null));
}

// With a state per group, one is held while the other continues. With a shared state a group cannot be held
// alone.
#[tokio::test]
async fn operators_hold_a_group_only_with_its_own_state() {
    let shared = TestProgram::start().await;
    let refused = hold(&shared, json!({ "state": "offline", "group": "orders" })).await;
    assert_eq!((refused.status, refused.problem().as_str()), (409, "shared_state"));
    assert_eq!(shared.get("/v1/apis").await.json()["apis"][0]["state"], "Normal");

    let text = r#"
        [apis.stock]
        base_url = "http://localhost:9"
        [apis.stock.groups.orders]
        limits = ["10/min"]
        [apis.stock.groups.quotes]
        limits = ["10/min"]
        [apis.stock.health]
        scope = "group"
    "#;
    let running = TestProgram::with_config(&format!("{QUIET}{text}")).await;
    let held = hold(&running, json!({ "state": "offline", "group": "orders" })).await;
    assert_eq!(held.status, 200, "{}", held.text());
    let ask = |group: &str| json!({ "api": "stock", "group": group }).to_string();
    assert_eq!(running.post("/v1/acquire", &ask("orders")).await.status, 503);
    assert_eq!(running.post("/v1/acquire", &ask("quotes")).await.status, 200);
    assert_eq!(
        running.get("/v1/apis").await.json()["apis"][0]["state"],
        "Sleep",
        "the worst"
    );
    let unknown = hold(&running, json!({ "state": "offline", "group": "bonds" })).await;
    assert_eq!(unknown.problem(), "unknown_group");
    let released = running.delete("/v1/apis/stock/health?group=orders&reason=over").await;
    assert_eq!(released.status, 200);
    assert_eq!(running.get("/v1/audit").await.json()["changes"][0]["group"], "orders");
}

// The file changes to another limit, then to an invalid one. The second version stays in effect, and the
// response lists the errors of the third.
#[tokio::test]
async fn a_reload_applies_all_or_nothing_and_reports_it() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("outflow.toml");
    let write = |limit: &str| {
        let api = format!("[apis.stock]\nbase_url = \"http://localhost:9\"\nlimits = [\"{limit}\"]\n");
        std::fs::write(&file, format!("{QUIET}{api}")).expect("written");
    };
    write("3/min");
    let running = TestProgram::with_sources(ConfigSources::new(vec![file.clone()])).await;
    write("4/min");
    let changed = running.post("/v1/reload", r#"{"reason":"more"}"#).await;
    assert_eq!(changed.json()["changed"], json!(["stock"]), "{}", changed.text());
    let limit = async || running.get("/v1/apis/stock").await.json()["limits"][0]["configured"].clone();
    assert_eq!(limit().await, "4/min");
    write("many");
    let refused = running.post("/v1/reload", "{}").await;
    assert_eq!((refused.status, refused.problem().as_str()), (422, "configuration"));
    let diagnostic = &refused.json()["diagnostics"][0];
    assert_eq!(diagnostic["key"], "apis.stock.limits[0]", "{diagnostic}");
    assert_eq!(limit().await, "4/min");
    let noted = running.get("/v1/audit").await.json();
    assert_eq!(
        noted["changes"].as_array().map(Vec::len),
        Some(1),
        "what failed changed nothing"
    );
}

#[tokio::test]
async fn operators_set_variables_at_runtime() {
    let running = TestProgram::start().await;
    let set = async |body: serde_json::Value| {
        let json_body = [("content-type", "application/json")];
        let target = "/v1/apis/stock/variables";
        running.send("PATCH", target, &json_body, &body.to_string()).await
    };
    let done = set(json!({ "variable": "concurrency", "value": 9, "reason": "room" })).await;
    assert_eq!(done.json()["changed"], json!(["stock"]), "{}", done.text());
    let concurrency = running.get("/v1/apis/stock").await.json()["health"][0]["concurrency"].clone();
    assert_eq!(concurrency, 9);
    let shown = running.get("/v1/config").await.json();
    let mut values = shown["values"].as_array().expect("a list").iter();
    let shown = values
        .find(|value| value["key"] == "apis.stock.concurrency")
        .expect("shown");
    assert_eq!(
        (&shown["value"], &shown["origin"]),
        (&json!("9"), &json!("runtime")),
        "{shown}"
    );
    for wrong in [
        json!({ "variable": "concurrency", "value": "many" }),
        json!({ "variable": "concurency", "value": 9 }),
    ] {
        assert_eq!(set(wrong.clone()).await.problem(), "configuration", "{wrong}");
    }
    let unknown = running
        .send(
            "PATCH",
            "/v1/apis/bonds/variables",
            &[("content-type", "application/json")],
            r#"{"variable":"concurrency","value":9}"#,
        )
        .await;
    assert_eq!(unknown.problem(), "unknown_api");
    let change = &running.get("/v1/audit").await.json()["changes"][0];
    assert_eq!(
        (&change["action"], &change["reason"]),
        (&json!("set_variable"), &json!("concurrency = 9: room"))
    );
}

// A local program without rights could send a key, or a file that only Outflow can read, to its own server.
#[tokio::test]
async fn no_request_changes_where_calls_go_or_what_they_carry() {
    let running = TestProgram::start().await;
    let before = running.get("/v1/config").await.text();
    for variable in [
        "base_url",
        "api_key_env",
        "api_key_file",
        "key",
        "key.query",
        "headers.authorization",
        "preset",
        "proxy",
        "trust",
        "addresses",
    ] {
        let body = json!({ "variable": variable, "value": "http://127.0.0.1:1" });
        let json_body = [("content-type", "application/json")];
        let target = "/v1/apis/stock/variables";
        let answer = running.send("PATCH", target, &json_body, &body.to_string()).await;
        assert_eq!(answer.problem(), "configuration", "{variable}");
        assert!(answer.text().contains("change it in the file"), "{}", answer.text());
    }
    assert_eq!(running.get("/v1/config").await.text(), before);
    assert_eq!(running.get("/v1/audit").await.json()["changes"], json!([]));
}

#[tokio::test]
async fn the_audit_log_records_changes_only() {
    let running = TestProgram::start().await;
    hold(&running, json!({ "state": "throttle", "reason": "<b>slow</b>" })).await;
    hold(&running, json!({ "state": "half_open" })).await;
    running.post("/v1/apis/bonds/health", r#"{"state":"offline"}"#).await;
    running.get("/v1/snapshot").await;
    running.delete("/v1/apis/stock/health").await;
    let changes = running.get("/v1/audit").await.json();
    let changes = changes["changes"].as_array().expect("a list").clone();
    let actions: Vec<_> = changes.iter().map(|change| &change["action"]).collect();
    assert_eq!(actions, ["release", "hold_throttle"], "the newest first");
    assert_eq!(changes[1]["who"], "127.0.0.1");
    assert_eq!(changes[1]["reason"], "<b>slow</b>");
    assert_eq!(changes[1]["api"], "stock");
}
