//! The limiter for programs that send their calls themselves.

use serde_json::{Value, json};
use tokio::io::AsyncReadExt;
use tokio::time::timeout;

use super::event_stream::EventReader;
use super::support::{AdminResponse, PATIENCE, QUIET, TestProgram};

async fn acquire(running: &TestProgram, body: &Value) -> AdminResponse {
    running.post("/v1/acquire", &body.to_string()).await
}

async fn permit(running: &TestProgram) -> String {
    let answer = acquire(running, &json!({ "api": "stock" })).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()["permit"].as_str().expect("a number").to_owned()
}

async fn settle(running: &TestProgram, permit: &str, more: Value) -> AdminResponse {
    let mut body = more;
    body["permit"] = json!(permit);
    running.post("/v1/settle", &body.to_string()).await
}

async fn used(running: &TestProgram) -> Value {
    running.get("/v1/apis/stock").await.json()["limits"][0]["used"].clone()
}

async fn in_flight(running: &TestProgram) -> Value {
    running.get("/v1/apis/stock").await.json()["in_flight"].clone()
}

#[tokio::test]
async fn a_permit_is_acquired_and_settled() {
    let running = TestProgram::start().await;
    let answer = acquire(
        &running,
        &json!({ "api": "stock", "method": "POST", "path": "/orders/1" }),
    )
    .await;
    let given = answer.json();
    assert_eq!((&given["group"], &given["cost"]), (&json!("orders"), &json!(2)));
    assert_eq!(given["expires_in_ms"], 60_000);
    assert_eq!((in_flight(&running).await, used(&running).await), (json!(1), json!(2)));
    let settled = settle(
        &running,
        given["permit"].as_str().expect("a number"),
        json!({ "status": 201 }),
    )
    .await;
    assert_eq!(
        settled.json(),
        json!({ "effect": "success", "retry": false, "delay_ms": null })
    );
    assert_eq!((in_flight(&running).await, used(&running).await), (json!(0), json!(2)));
}

// 3/min, two of them refunded: a refund restores quota, a settled call does not.
#[tokio::test]
async fn a_refund_restores_quota_once() {
    let running = TestProgram::start().await;
    for _ in 0..2 {
        let number = permit(&running).await;
        let body = json!({ "permit": number }).to_string();
        assert_eq!(running.post("/v1/refund", &body).await.status, 204);
        assert_eq!(used(&running).await, 0);
        let again = running.post("/v1/refund", &body).await;
        assert_eq!((again.status, again.problem().as_str()), (410, "unknown_permit"));
        assert_eq!(settle(&running, &number, json!({ "status": 200 })).await.status, 410);
    }
}

#[tokio::test]
async fn a_refusal_states_its_reason_and_delay() {
    let running = TestProgram::start().await;
    for _ in 0..3 {
        permit(&running).await;
    }
    let busy = acquire(&running, &json!({ "api": "stock", "wait": false })).await;
    assert_eq!((busy.status, busy.problem().as_str()), (429, "busy"));
    assert_eq!(
        (&busy.json()["why"], &busy.json()["limit"]),
        (&json!("limit"), &json!("3/min"))
    );
    let secs: u64 = busy
        .header("retry-after")
        .and_then(|secs| secs.parse().ok())
        .expect("seconds");
    assert!((40..=60).contains(&secs), "{secs}");
    assert!(
        busy.json()["retry_after_ms"]
            .as_u64()
            .is_some_and(|ms| ms <= secs * 1_000)
    );
    let late = acquire(&running, &json!({ "api": "stock", "wait": true, "max_wait_ms": 1_000 })).await;
    assert_eq!(
        (late.status, late.problem().as_str()),
        (429, "too_late"),
        "at once, not after a second"
    );
    let never = acquire(&running, &json!({ "api": "stock", "cost": 4 })).await;
    assert_eq!((never.status, never.problem().as_str()), (422, "cost_too_high"));
    assert_eq!(never.json()["limit"], "3/min");
    assert_eq!(
        acquire(&running, &json!({ "api": "bonds" })).await.problem(),
        "unknown_api"
    );
    assert_eq!(
        acquire(&running, &json!({ "api": "stock", "group": "bonds" }))
            .await
            .problem(),
        "unknown_group"
    );
}

#[tokio::test]
async fn check_takes_no_quota() {
    let running = TestProgram::start().await;
    for _ in 0..5 {
        let estimate = running.post("/v1/check", r#"{"api":"stock","cost":3}"#).await.json();
        assert_eq!(estimate["decision"], "go");
    }
    assert_eq!(used(&running).await, 0);
}

// The limiter reads the response headers as for its own calls: the server asks for 7 s.
#[tokio::test]
async fn settle_returns_the_verdict_of_the_policy() {
    let running = TestProgram::start().await;
    let throttled = json!({ "status": 429, "headers": { "Retry-After": "7", "x-more": ["a", "b"] } });
    let verdict = settle(&running, &permit(&running).await, throttled).await.json();
    assert_eq!(
        verdict,
        json!({ "effect": "throttled", "retry": true, "delay_ms": 7_000 })
    );
    let state = running.get("/v1/apis/stock").await.json()["health"][0]["state"].clone();
    assert_eq!(state, "Sleep", "one throttle stops all calls");

    let running = TestProgram::start().await;
    let lost = settle(&running, &permit(&running).await, json!({ "fault": "read_timeout" })).await;
    assert_eq!(
        lost.json(),
        json!({ "effect": "network_failed", "retry": true, "delay_ms": null })
    );
    let left = settle(&running, &permit(&running).await, json!({ "fault": "cancelled" })).await;
    assert_eq!(left.json()["effect"], "cancelled");
}

// An invalid report must not consume the permit.
#[tokio::test]
async fn an_invalid_report_does_not_consume_the_permit() {
    let running = TestProgram::start().await;
    let number = permit(&running).await;
    for ending in [
        json!({}),
        json!({ "status": 200, "fault": "dns" }),
        json!({ "status": 99 }),
        json!({ "status": 1_000 }),
        json!({ "fault": "boredom" }),
        json!({ "status": 200, "headers": { "a b": "c" } }),
        json!({ "status": 200, "headers": { "a": "b\r\nc: d" } }),
        json!({ "status": 200, "header": {} }),
    ] {
        assert_eq!(settle(&running, &number, ending.clone()).await.status, 400, "{ending}");
    }
    assert_eq!(settle(&running, &number, json!({ "status": 200 })).await.status, 200);
}

#[tokio::test]
async fn permit_numbers_cannot_be_guessed() {
    let running = TestProgram::start().await;
    let (one, other) = (permit(&running).await, permit(&running).await);
    let same = one.bytes().zip(other.bytes()).filter(|(a, b)| a == b).count();
    assert!(one.len() == 32 && same < 20, "{one} and {other}");
    let upper = one.to_uppercase();
    let long = format!("0{one}");
    for nonsense in [
        "",
        "0",
        "-1",
        "../..",
        long.as_str(),
        &"0".repeat(32),
        "+0000000000000000000000000000000",
    ] {
        assert_eq!(
            settle(&running, nonsense, json!({ "status": 200 })).await.status,
            410,
            "{nonsense}"
        );
    }
    assert_eq!(
        settle(&running, &upper, json!({ "status": 200 })).await.status,
        200,
        "hex is hex"
    );
}

// A lease of a fifth of a second expires. The call counts as sent: it is no longer in flight, and its quota
// stays used.
#[tokio::test]
async fn an_expired_lease_counts_as_a_sent_call() {
    let running = TestProgram::start().await;
    let mut events = EventReader::open(&running, "/v1/events?api=stock").await;
    let given = acquire(&running, &json!({ "api": "stock", "lease_ms": 200 }))
        .await
        .json();
    assert_eq!(events.next_named("admitted").await["waited_ms"], 0);
    let lost = events.next_named("settled").await;
    assert_eq!(
        (&lost["ended"], &lost["effect"]),
        (&json!("cancelled"), &json!("cancelled"))
    );
    assert_eq!((in_flight(&running).await, used(&running).await), (json!(0), json!(1)));
    let late = settle(
        &running,
        given["permit"].as_str().expect("a number"),
        json!({ "status": 200 }),
    )
    .await;
    assert_eq!(late.status, 410);
    assert_eq!(running.get("/v1/snapshot").await.json()["permits_out"], 0);
}

// One call may be in flight, and it is. The second waits, hangs up and leaves nothing behind, so a third gets
// the permit when the first is settled.
#[tokio::test]
async fn a_waiter_that_hangs_up_leaves_no_trace() {
    let text = "[apis.stock]\nbase_url = \"http://localhost:9\"\nlimits = [\"3/min\"]\nconcurrency = 1\n";
    let running = TestProgram::with_config(&format!("{QUIET}{text}")).await;
    let mut events = EventReader::open(&running, "/v1/events").await;
    let first = permit(&running).await;
    let json_body = [("content-type", "application/json")];
    let waiting = running
        .open("POST", "/v1/acquire", &json_body, r#"{"api":"stock"}"#)
        .await;
    assert_eq!(events.next_named("waiting").await["why"], "concurrency");
    drop(waiting);
    let gone = async { while running.get("/v1/apis/stock").await.json()["waiting"] != 0 {} };
    timeout(PATIENCE, gone).await.expect("the line is empty again");
    assert_eq!(settle(&running, &first, json!({ "status": 200 })).await.status, 200);
    permit(&running).await;
    assert_eq!((in_flight(&running).await, used(&running).await), (json!(1), json!(2)));
}

// A waiter receives its refusal at once, and an open permit does not delay the end. At 1/min the second call
// would wait for a whole minute.
#[tokio::test]
async fn shutdown_refuses_all_waiters() {
    let text = "[apis.stock]\nbase_url = \"http://localhost:9\"\nlimits = [\"1/min\"]\nmax_wait = \"5m\"\n";
    let running = TestProgram::with_config(&format!("{QUIET}{text}")).await;
    let mut events = EventReader::open(&running, "/v1/events").await;
    permit(&running).await;
    let json_body = [("content-type", "application/json")];
    let mut waiting = running
        .open("POST", "/v1/acquire", &json_body, r#"{"api":"stock"}"#)
        .await;
    events.next_named("waiting").await;
    assert!(running.stop().await, "everything ended by itself");
    let mut answer = Vec::new();
    let read = timeout(PATIENCE, waiting.read_to_end(&mut answer))
        .await
        .expect("an end");
    read.expect("an orderly one");
    let answer = String::from_utf8_lossy(&answer).into_owned();
    assert!(
        answer.starts_with("HTTP/1.1 503") && answer.contains("shutting_down"),
        "{answer}"
    );
}
