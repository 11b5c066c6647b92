//! `explain` and the next call of a running program, from the outside.
//!
//! The API has an address and a limit, as a user writes them; every other setting is what its test judges.

use std::time::Duration;

use serde_json::{Value, json};

use super::support::{QUIET, TestProgram};

/// Limit of an hour: what is used up stays used up during a test.
const HOURLY: &str = "[apis.stock]\nbase_url = \"http://127.0.0.1:9\"\nlimits = [\"2/h\"]\n";

/// Longer than a refusal takes on a busy machine, and far shorter than any wait here.
const AT_ONCE: Duration = Duration::from_secs(5);

async fn program(more: &str) -> TestProgram {
    TestProgram::with_config(&format!("{QUIET}{HOURLY}{more}\n")).await
}

async fn take(running: &TestProgram, status: u16) {
    let permit = running.post("/v1/acquire", r#"{"api":"stock"}"#).await.json();
    let settle = json!({ "permit": permit["permit"], "status": status });
    assert_eq!(running.post("/v1/settle", &settle.to_string()).await.status, 200);
}

async fn force(running: &TestProgram, state: &str) {
    let body = json!({ "state": state, "reason": "a move" }).to_string();
    assert_eq!(running.post("/v1/apis/stock/health", &body).await.status, 200);
}

/// Removes the figures of a sentence: milliseconds pass between two requests.
fn without_digits(text: &str) -> String {
    text.chars().filter(|c| !c.is_ascii_digit() && *c != '.').collect()
}

/// Asserts that explain announces a refusal, and that the call then gets it at once, in the same words.
async fn assert_refused_as_explained(running: &TestProgram, state: &str) -> Value {
    let explained = running.get("/v1/explain?api=stock").await.json();
    assert_eq!(explained["decision"], "refuse", "{state}: {explained}");
    assert_eq!(explained["delay_ms"], json!(null), "{state}: it does not wait");
    let acquire = running.post("/v1/acquire", r#"{"api":"stock"}"#);
    let refused = tokio::time::timeout(AT_ONCE, acquire).await;
    let refused = refused.unwrap_or_else(|_| panic!("{state}: it waits"));
    assert!(refused.status >= 400, "{state}: {}", refused.text());
    let detail = refused.json()["detail"].as_str().expect("a detail").to_owned();
    let text = explained["text"].as_str().expect("a text");
    let announced = format!("it would be refused at once: {detail}");
    assert_eq!(without_digits(text), without_digits(&announced), "{state}");
    explained
}

// explain said "decision wait ... it would go in 6807 ms" of each of them.
#[tokio::test]
async fn explain_announces_every_refusal_in_the_words_of_the_refusal() {
    for state in ["offline", "cache_only"] {
        let running = program("").await;
        force(&running, state).await;
        let explained = assert_refused_as_explained(&running, state).await;
        let text = explained["text"].as_str().unwrap_or_default();
        assert!(text.contains("an operator (127.0.0.1) forced"), "{text}");
        assert!(text.contains("with the reason \"a move\""), "{text}");
        assert_eq!(explained["why"], "state");
    }
    // The mode itself is judged.
    let rejecting = program("rate_limit_mode = \"reject\"").await;
    take(&rejecting, 200).await;
    take(&rejecting, 200).await;
    let explained = assert_refused_as_explained(&rejecting, "reject").await;
    assert_eq!(
        (&explained["why"], &explained["refusal"]),
        (&json!("limit"), &json!("busy"))
    );
    // An hour is longer than a call waits.
    let full = program("").await;
    take(&full, 200).await;
    take(&full, 200).await;
    let explained = assert_refused_as_explained(&full, "a limit of an hour").await;
    assert_eq!(
        (&explained["why"], &explained["refusal"]),
        (&json!("limit"), &json!("too_late"))
    );
    let patient = full.get("/v1/explain?api=stock&max_wait_ms=7200000").await.json();
    assert_eq!(
        (&patient["decision"], &patient["limit"]),
        (&json!("wait"), &json!("2/h"))
    );
    let hurried = full.get("/v1/explain?api=stock&path=/&timeout_ms=50").await.json();
    assert_eq!(
        (&hurried["decision"], &hurried["refusal"]),
        (&json!("refuse"), &json!("too_late"))
    );
}

#[tokio::test]
async fn explain_and_status_name_the_figures_of_a_sleep() {
    // Nothing but the address: the default limit lets eight calls fail in a row.
    let running = TestProgram::with_config(&format!("{QUIET}[apis.stock]\nbase_url = \"http://127.0.0.1:9\"\n")).await;
    for _ in 0..8 {
        take(&running, 503).await;
    }
    let health = running.get("/v1/apis/stock").await.json()["health"][0].clone();
    assert_eq!(
        (&health["state"], &health["reason"]),
        (&json!("Sleep"), &json!("streak"))
    );
    assert_eq!(health["error_ppm"], 1_000_000, "the figures that led to it: {health}");
    let why = health["why"].as_str().expect("a reason");
    assert!(why.starts_with("the API is in Sleep for another "), "{why}");
    assert!(why.ends_with(": 8 calls in a row failed (5xx)"), "{why}");
    let line = running.get("/v1/apis").await.json()["apis"][0].clone();
    assert_eq!(
        without_digits(line["why"].as_str().expect("a reason")),
        without_digits(why)
    );
    // The next probe is a second away, and this caller has no time.
    let explained = running.get("/v1/explain?api=stock&max_wait_ms=0").await.json();
    assert_eq!(
        (&explained["decision"], &explained["why"]),
        (&json!("refuse"), &json!("state"))
    );
    assert!(
        explained["retry_after_ms"]
            .as_u64()
            .is_some_and(|millis| millis <= 1_250),
        "{explained}"
    );
}

// 35/s was configured, and "the limit of 19/s is used up" was all that explain said.
#[tokio::test]
async fn a_lowered_limit_is_shown_with_the_configured_one_everywhere() {
    let minutely = "[apis.stock]\nbase_url = \"http://127.0.0.1:9\"\nlimits = [\"30/min\"]\n";
    let running = TestProgram::with_config(&format!("{QUIET}{minutely}")).await;
    for _ in 0..20 {
        take(&running, 200).await;
    }
    take(&running, 429).await;
    let api = running.get("/v1/apis/stock").await.json();
    let (health, limit) = (&api["health"][0], &api["limits"][0]);
    assert_eq!(health["configured_rate"], "30/min");
    assert_ne!(health["rate"], "30/min", "{health}");
    let why = health["why"].as_str().expect("a reason");
    assert!(
        why.contains(" of the configured 30/min: the API has allowed less for "),
        "{why}"
    );
    let lowered = limit["lowered"].as_str().expect("a reason");
    assert!(lowered.contains(" of the configured 30/min"), "{lowered}");
    // More than is left, so that it has to wait.
    let explained = running
        .get("/v1/explain?api=stock&cost=25&max_wait_ms=600000")
        .await
        .json();
    assert_eq!(
        (&explained["limit"], &explained["configured"]),
        (&health["rate"], &json!("30/min"))
    );
    let text = explained["text"].as_str().expect("a text");
    assert!(
        text.contains("; 30/min is configured: the API has allowed less for "),
        "{text}"
    );
}
