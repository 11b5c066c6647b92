//! Queries of the program's state.

use std::time::Duration;

use outflow::config::Environment;
use serde_json::json;

use super::support::{QUIET, STOCK, TestProgram};

#[tokio::test]
async fn probes_report_a_live_and_ready_program() {
    let running = TestProgram::start().await;
    assert_eq!(running.get("/healthz").await.json(), json!({ "status": "alive" }));
    let ready = running.get("/readyz").await;
    assert_eq!(ready.json(), json!({ "ready": true, "reasons": [] }));
}

// Without its directory a program cannot know what other processes used, and calls wait.
#[tokio::test]
async fn a_program_without_the_directory_of_its_limits_is_not_ready() {
    let temp = tempfile::tempdir().expect("a folder");
    let (dir, away) = (temp.path().join("shared"), temp.path().join("away"));
    let shared = format!("[shared]\nlimits = \"host\"\ndir = \"{}\"\n", dir.display());
    let running = TestProgram::with_config(&format!("{QUIET}{STOCK}{shared}")).await;
    assert_eq!(running.get("/readyz").await.status, 200);
    std::fs::rename(&dir, &away).expect("moved");
    let ready = running.get("/readyz").await;
    assert_eq!(ready.status, 503);
    assert_eq!(ready.json()["reasons"], json!(["limits_unavailable"]));
    std::fs::rename(&away, &dir).expect("moved back");
    assert_eq!(running.get("/readyz").await.status, 200);
}

#[tokio::test]
async fn metrics_have_the_openmetrics_type() {
    let running = TestProgram::start().await;
    let page = running.get("/metrics").await;
    let kind = page.header("content-type").unwrap_or_default().to_owned();
    assert!(
        kind.starts_with("application/openmetrics-text; version=1.0.0"),
        "{kind}"
    );
    assert!(
        page.text().contains("outflow_waiting{api=\"stock\"} 0"),
        "{}",
        page.text()
    );
    assert!(page.text().ends_with("# EOF\n"));
}

// One call in flight is allowed, and another waits though 500/min would let it go.
#[tokio::test]
async fn a_snapshot_says_when_concurrency_binds() {
    let stock = "[apis.stock]\nbase_url = \"http://127.0.0.1:9\"\nlimits = [\"500/min\"]\nconcurrency = 1\n";
    let running = TestProgram::with_config(&format!("{QUIET}{stock}")).await;
    let taken = running.post("/v1/acquire", r#"{"api":"stock"}"#).await;
    assert_eq!(taken.status, 200);
    let json = [("content-type", "application/json")];
    let _waits = running.open("POST", "/v1/acquire", &json, r#"{"api":"stock"}"#).await;
    let waiting = async {
        loop {
            let api = running.get("/v1/apis/stock").await.json();
            if api["waiting"] == 1 {
                return api["health"][0].clone();
            }
        }
    };
    let health = tokio::time::timeout(Duration::from_secs(10), waiting).await;
    let health = health.expect("a call waits");
    let bound = "1 of 1 calls in flight: concurrency binds, not the limit 500/min; raise `concurrency`";
    assert_eq!(health["bound"], bound);
    let explained = running.get("/v1/explain?api=stock").await.json();
    assert_eq!(
        (&explained["why"], &explained["bound"]),
        (&json!("concurrency"), &json!(bound))
    );
}

// Two of three units are used, so a call whose route costs 2 does not fit.
#[tokio::test]
async fn a_snapshot_shows_the_state_of_every_upstream() {
    let running = TestProgram::start().await;
    for _ in 0..2 {
        let taken = running.post("/v1/acquire", r#"{"api":"stock"}"#).await;
        assert_eq!(taken.status, 200);
    }
    let refused = running
        .post(
            "/v1/acquire",
            r#"{"api":"stock","path":"/orders/7","method":"POST","wait":false}"#,
        )
        .await;
    assert_eq!(refused.status, 429, "{}", refused.text());
    let snapshot = running.get("/v1/snapshot").await.json();
    assert_eq!(snapshot["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(snapshot["permits_out"], 2);
    assert_eq!(snapshot["cache"]["entries"], 0);
    let api = &snapshot["apis"][0];
    assert_eq!((&api["name"], &api["in_flight"]), (&json!("stock"), &json!(2)));
    let health = &api["health"][0];
    assert_eq!(
        (&health["state"], &health["circuit"]),
        (&json!("Normal"), &json!("CLOSED"))
    );
    let limit = &api["limits"][0];
    for (key, value) in [
        ("configured", json!("3/min")),
        ("effective", json!("3/min")),
        ("kind", json!("sliding")),
        ("accounting", json!("send")),
        ("used", json!(2)),
        ("capacity", json!(3)),
        ("remaining", json!(1)),
        ("used_ppm", json!(666_666)),
        ("peak", json!(2)),
        ("window_ms", json!(60_000)),
        ("predicted_delay_ms", json!(0)),
        ("pattern", json!("steady")),
        ("drift", json!(null)),
    ] {
        assert_eq!(limit[key], value, "{key} in {limit}");
    }
    assert!(limit["oldest_ms"].as_u64() >= limit["newest_ms"].as_u64(), "{limit}");
    let group = |name: &str| {
        let groups = api["groups"].as_array().expect("groups");
        groups
            .iter()
            .find(|group| group["name"] == name)
            .expect("a group")
            .clone()
    };
    assert_eq!(
        (&group("default")["admitted"], &group("orders")["refused"]),
        (&json!(2), &json!(1))
    );
    assert_eq!(group("orders")["aliases"], json!(["trading"]));
    let tasks = snapshot["tasks"].as_array().expect("tasks");
    for name in ["sidecar", "admin", "permits", "tidy"] {
        assert!(
            tasks
                .iter()
                .any(|task| task["name"] == name && task["state"] == "running"),
            "{name}"
        );
    }
}

// The server throttles after two calls: the effective limit falls below the configured three, and the
// snapshot shows the difference.
#[tokio::test]
async fn a_snapshot_shows_the_drift_of_a_lowered_limit() {
    let running = TestProgram::start().await;
    for status in [200, 200, 429] {
        let permit = running.post("/v1/acquire", r#"{"api":"stock"}"#).await.json();
        let settle = json!({ "permit": permit["permit"], "status": status });
        assert_eq!(running.post("/v1/settle", &settle.to_string()).await.status, 200);
    }
    let limits = running.get("/v1/apis/stock/limits").await.json();
    let limit = &limits["limits"][0];
    assert_eq!(limit["configured"], "3/min");
    assert_eq!(limit["drift"]["configured"], "3/min");
    assert_eq!(limit["drift"]["evidence"], limit["effective"]);
    assert_ne!(limit["effective"], "3/min", "{limit}");
    let counts = &running.get("/v1/apis/stock").await.json()["health"][0]["counts"];
    // The lowered limit explains the throttle, so that health does not count it.
    assert_eq!((&counts["success"], &counts["throttled"]), (&json!(2), &json!(0)));
}

#[tokio::test]
async fn apis_are_listed_by_name_and_unknown_ones_are_reported() {
    let more = "[apis.books]\nbase_url = \"http://localhost:9\"\ncache = \"standard\"\n";
    let running = TestProgram::with_config(&format!("{QUIET}{STOCK}{more}")).await;
    let apis = running.get("/v1/apis").await.json();
    let names: Vec<_> = apis["apis"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|api| &api["name"])
        .collect();
    assert_eq!(names, ["books", "stock"]);
    assert_eq!(running.get("/v1/snapshot").await.json()["cache"]["disk"], "none");
    for path in ["/v1/apis/bonds", "/v1/apis/bonds/limits", "/v1/explain?api=bonds"] {
        assert_eq!(running.get(path).await.problem(), "unknown_api", "{path}");
    }
}

// 3/min: three calls go, the fourth waits until the first is a minute old, and a cost of four never fits. The
// delay is a minute less the duration of the test.
#[tokio::test]
async fn explain_estimates_a_wait_without_taking_quota() {
    let running = TestProgram::start().await;
    let explain = async |rest: &str| running.get(&format!("/v1/explain?api=stock{rest}")).await;
    let free = explain("").await.json();
    assert_eq!((&free["decision"], &free["delay_ms"]), (&json!("go"), &json!(0)));
    let routed = explain("&method=POST&path=/orders/7").await.json();
    assert_eq!((&routed["group"], &routed["cost"]), (&json!("orders"), &json!(2)));
    let never = explain("&cost=4").await.json();
    assert_eq!(
        (&never["decision"], &never["delay_ms"]),
        (&json!("never"), &json!(null))
    );
    assert_eq!(explain("&group=bonds").await.problem(), "unknown_group");
    assert_eq!(
        explain("&group=trading").await.json()["group"],
        "orders",
        "by its other name"
    );

    for _ in 0..3 {
        running.post("/v1/acquire", r#"{"api":"stock"}"#).await;
    }
    // A call waits for half a minute unless it says otherwise.
    let hurried = explain("").await.json();
    assert_eq!(
        (&hurried["decision"], &hurried["refusal"]),
        (&json!("refuse"), &json!("too_late"))
    );
    let full = explain("&max_wait_ms=60000").await.json();
    assert_eq!((&full["decision"], &full["why"]), (&json!("wait"), &json!("limit")));
    assert_eq!((&full["limit"], &full["position"]), (&json!("3/min"), &json!(0)));
    let delay = full["delay_ms"].as_u64().expect("a delay");
    assert!((40_000..=60_000).contains(&delay), "{delay}");
    let text = full["text"].as_str().expect("a text");
    assert!(text.contains("the limit of 3/min is used up"), "{text}");
    assert_eq!(
        running.get("/v1/snapshot").await.json()["apis"][0]["limits"][0]["used"],
        3,
        "nothing was taken"
    );
}

// A key and a value from the environment, a value from the text, and a default.
#[tokio::test]
async fn config_shows_values_with_sources_and_without_secrets() {
    let text = STOCK.replace("base_url", "api_key_env = \"STOCK_KEY\"\n    base_url");
    let environment = Environment::from_iter([("STOCK_KEY", "CANARY-9f2c"), ("OUTFLOW_APIS__STOCK__TIMEOUT", "7s")]);
    let running = TestProgram::with_environment(&format!("{QUIET}{text}"), environment).await;
    let config = running.get("/v1/config").await;
    let values = config.json()["values"].as_array().expect("a list").clone();
    let of = |key: &str| {
        let value = values.iter().find(|value| value["key"] == key);
        let value = value.unwrap_or_else(|| panic!("{key} in {values:?}"));
        (value["value"].clone(), value["origin"].clone())
    };
    assert_eq!(of("apis.stock.api_key_env"), (json!("\"STOCK_KEY\""), json!("file")));
    assert_eq!(of("apis.stock.timeout").1, "environment");
    assert_eq!(of("apis.stock.retry_count"), (json!("2"), json!("default")));
    assert_eq!(of("admin.listen"), (json!("\"127.0.0.1:0\""), json!("file")));
    assert!(!config.text().contains("CANARY"), "{}", config.text());
}

#[tokio::test]
async fn tasks_lists_background_work() {
    let running = TestProgram::start().await;
    let tasks = running.get("/v1/tasks").await.json();
    let tasks = tasks["tasks"].as_array().expect("a list").clone();
    let owned = |owner: &str, name: &str| tasks.iter().any(|task| task["owner"] == owner && task["name"] == name);
    assert!(owned("client", "tidy") && owned("program", "admin"), "{tasks:?}");
}
