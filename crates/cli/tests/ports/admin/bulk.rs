//! Jobs over the admin API. Every response is compared with the OpenAPI document.

use std::time::Duration;

use outflow_mock::{Content, MockApi, MockResponse};
use outflow_testkit::Process;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::support::{PATIENCE, QUIET, STOCK, TestProgram};

/// Three jobs of two tenants, one of them with an id.
const JOBS: &str = r#"[
    {"id": "one", "tenant": "acme", "api": "stock", "path": "/a"},
    {"tenant": "acme", "api": "stock", "path": "/b", "priority": "high"},
    {"tenant": "bolt", "api": "stock", "method": "POST", "path": "/orders/7", "json": {"n": 1}}
]"#;

async fn start() -> TestProgram {
    TestProgram::with_bulk(&format!("{QUIET}{STOCK}")).await
}

/// Posts `{}` and returns the response.
async fn post_empty(running: &TestProgram, target: &str) -> Value {
    let answer = running.post(target, "{}").await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()
}

async fn get_json(running: &TestProgram, target: &str) -> Value {
    let answer = running.get(target).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()
}

// Eight results of 3 MiB: three of them fill a page.
#[tokio::test(flavor = "multi_thread")]
async fn results_are_paged_by_size() {
    let large = MockResponse::ok("").content(Content::Whole(vec![b'x'; 3 * 1024 * 1024].into()));
    let api = MockApi::builder().answer("/**", large).build();
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let server = api.expect("valid").serve(listener).expect("served");
    let stock = format!("[apis.stock]\nbase_url = \"{}\"\n", server.url());
    let running = TestProgram::with_bulk(&format!("{QUIET}{stock}")).await;
    let job = r#"{"api":"stock","path":"/a"}"#;
    let jobs = format!("[{}]", [job; 8].join(","));
    let taken = running.post("/v1/bulk/jobs?action=a&last=true", &jobs).await;
    assert_eq!(taken.json()["accepted"], 8, "{}", taken.text());
    let finished = async {
        while get_json(&running, "/v1/bulk/actions/a").await["stage"] != "COMPLETED" {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let finished = tokio::time::timeout(PATIENCE, finished).await;
    finished.expect("all are done");
    let (mut after, mut pages) = (0, Vec::new());
    loop {
        let target = format!("/v1/bulk/actions/a/results?after={after}&most=1000");
        let page = get_json(&running, &target).await;
        let Some(next) = page["next"].as_u64() else {
            break;
        };
        pages.push(page["results"].as_array().expect("a list").len());
        after = next;
    }
    assert_eq!(pages, [3, 3, 2]);
    assert!(running.stop().await);
}

// Both tenants are paused, so nothing is sent and every job can be counted.
#[tokio::test]
async fn bulk_routes_submit_show_and_cancel_jobs() {
    let running = start().await;
    for tenant in ["acme", "bolt"] {
        post_empty(&running, &format!("/v1/bulk/tenants/{tenant}/pause")).await;
    }
    let taken = running.post("/v1/bulk/jobs?action=nightly", JOBS).await.json();
    assert_eq!((&taken["accepted"], &taken["rejected"]), (&json!(3), &json!(0)));
    assert_eq!(taken["jobs"][0]["id"], "one");
    let known = r#"[{"id": "one", "tenant": "acme", "api": "stock", "path": "/a"}]"#;
    let again = running.post("/v1/bulk/jobs?action=nightly", known).await;
    assert_eq!(again.json()["duplicates"], 1, "a name is taken once");
    let summary = get_json(&running, "/v1/bulk").await;
    assert_eq!(
        (&summary["jobs"]["queued"], &summary["active_tenants"]),
        (&json!(3), &json!(2))
    );
    assert_eq!(summary["store"], "embedded");
    let tenants = get_json(&running, "/v1/bulk/tenants?most=1").await;
    assert_eq!(
        (&tenants["tenants"][0]["tenant"], &tenants["next"]),
        (&json!("acme"), &json!("acme"))
    );
    let tenants = get_json(&running, "/v1/bulk/tenants?after=acme").await;
    assert_eq!(tenants["tenants"][0]["paused"], true);
    assert_eq!(get_json(&running, "/v1/bulk/tenants/acme").await["jobs"]["queued"], 2);
    get_json(&running, "/v1/bulk/tenants/acme/history?most=5").await;
    let action = get_json(&running, "/v1/bulk/actions/nightly").await;
    assert_eq!(
        (&action["stage"], &action["jobs"]["total"]),
        (&json!("CREATED"), &json!(3))
    );
    assert_eq!(post_empty(&running, "/v1/bulk/tenants/bolt/cancel").await["jobs"], 1);
    post_empty(&running, "/v1/bulk/actions/nightly/close").await;
    assert_eq!(post_empty(&running, "/v1/bulk/actions/nightly/cancel").await["jobs"], 2);
    let results = get_json(&running, "/v1/bulk/actions/nightly/results").await;
    let ends = results["results"].as_array().expect("a list").iter();
    assert!(ends.clone().all(|one| one["ended"] == "cancelled"), "{results}");
    assert_eq!(ends.count(), 3);
    assert!(running.stop().await);
}

// No server listens at that API: the attempt fails at once and the job is dead-lettered with its error.
#[tokio::test]
async fn bulk_routes_retry_and_purge_dead_letters() {
    let running = start().await;
    let job = r#"{"id":"lost","tenant":"acme","api":"stock","path":"/a","max_retries":0}"#;
    let ndjson = [("content-type", "application/x-ndjson")];
    let lines = format!("{job}\n\n");
    let jobs = "/v1/bulk/jobs?action=nightly";
    let taken = running.send("POST", jobs, &ndjson, &lines).await;
    assert_eq!(taken.json()["accepted"], 1, "{}", taken.text());
    let letter = wait_for_dead_letter(&running).await;
    assert_eq!((&letter["id"], &letter["api"]), (&json!("lost"), &json!("stock")));
    assert!(!letter["history"].as_array().expect("a list").is_empty(), "{letter}");
    let came = get_json(&running, "/v1/bulk/actions/nightly/results").await;
    let (result, attempt) = (&came["results"][0], &letter["history"][0]);
    assert_eq!(result["ended"], "failed", "{came}");
    assert_eq!(result["error"], attempt["words"], "{came}");
    let pick = r#"{"jobs":["lost"],"reason":"they are back"}"#;
    let revived = running.post("/v1/bulk/dead/retry", pick).await.json();
    assert_eq!(revived["jobs"], 1);
    wait_for_dead_letter(&running).await;
    let purged = running.post("/v1/bulk/dead/purge", r#"{"all":true}"#).await.json();
    assert_eq!(purged["jobs"], 1);
    let nothing = running.post("/v1/bulk/dead/retry", r#"{"all":true}"#).await;
    assert_eq!((nothing.status, nothing.problem().as_str()), (404, "no_dead_letters"));
    let audit = get_json(&running, "/v1/audit").await;
    let actions: Vec<_> = audit["changes"].as_array().expect("a list").iter().collect();
    assert_eq!(actions[0]["action"], "bulk_dead_purge");
    assert_eq!(
        (&actions[1]["group"], &actions[1]["reason"]),
        (&json!("1 jobs"), &json!("they are back"))
    );
    assert!(running.stop().await);
}

async fn wait_for_dead_letter(running: &TestProgram) -> Value {
    let looking = async {
        loop {
            let dead = get_json(running, "/v1/bulk/dead").await;
            if let Some(letter) = dead["dead"].as_array().and_then(|list| list.first()) {
                return letter.clone();
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let found = tokio::time::timeout(PATIENCE, looking).await;
    found.expect("a dead letter")
}

#[tokio::test]
async fn bulk_routes_report_errors_and_take_nothing() {
    let running = start().await;
    let jobs = r#"[{"api":"stock","path":"/a"},{"api":"nope","path":"/a"},{"api":"stock"}]"#;
    let refused = running.post("/v1/bulk/jobs", jobs).await;
    assert_eq!((refused.status, &*refused.problem()), (422, "invalid_jobs"));
    let wrong = refused.json()["jobs"].clone();
    assert_eq!((&wrong[0]["job"], &wrong[1]["job"]), (&json!(2), &json!(3)), "{wrong}");
    for (target, body, status) in [
        ("/v1/bulk/jobs", "[{]", 400),
        ("/v1/bulk/jobs", "{\"api\":", 422),
        ("/v1/bulk/jobs?action=two%20words", "[]", 400),
        ("/v1/bulk/actions/nope/close", "{}", 404),
        (
            "/v1/bulk/actions",
            r#"{"id":"a","webhook":{"api":"nope","path":"/"}}"#,
            404,
        ),
        (
            "/v1/bulk/actions",
            r#"{"id":"a","webhook":{"api":"stock","path":"no path"}}"#,
            400,
        ),
        (
            "/v1/bulk/actions",
            r#"{"id":"a","webhook":{"api":"stock","path":"/","secret":"s"}}"#,
            400,
        ),
        ("/v1/bulk/actions", r#"{"id":"a","keep_ms":400000000000}"#, 400),
        ("/v1/bulk/tenants/nope/resume", "{}", 404),
        ("/v1/bulk/tenants/nope/cancel", "{}", 404),
        ("/v1/bulk/tenants/nope/release", "{}", 404),
        ("/v1/bulk/tenants/nope/reset", "{}", 404),
        ("/v1/bulk/actions", r#"{"id":"a","timeout_ms":0}"#, 400),
        ("/v1/bulk/dead/retry", "{}", 400),
        ("/v1/bulk/dead/purge", r#"{"all":true,"tenant":"acme"}"#, 400),
    ] {
        let answer = running.post(target, body).await;
        assert_eq!(answer.status, status, "{target} {body}: {}", answer.text());
    }
    for body in ["[]", "nope", "{\"id\":"] {
        let text = running.post("/v1/bulk/actions", body).await.text();
        assert!(!text.contains("struct") && !text.contains("ident"), "{text}");
    }
    let good = r#"[{"api":"stock","path":"/a"}]"#;
    let checked = running.post("/v1/bulk/jobs?check=true", good).await;
    assert_eq!(checked.json()["accepted"], 1, "{}", checked.text());
    for target in [
        "/v1/bulk/tenants/nope",
        "/v1/bulk/actions/nope",
        "/v1/bulk/actions/nope/results",
    ] {
        assert_eq!(running.get(target).await.status, 404, "{target}");
    }
    assert_eq!(get_json(&running, "/v1/bulk").await["jobs"]["total"], 0);
    assert!(running.stop().await);
}

#[tokio::test]
async fn bulk_routes_without_an_engine_say_how_to_start_one() {
    let running = TestProgram::start().await;
    let answer = running.get("/v1/bulk").await;
    assert_eq!((answer.status, &*answer.problem()), (404, "no_bulk"));
    assert!(answer.text().contains("outflow serve --bulk"), "{}", answer.text());
    assert_eq!(running.post("/v1/bulk/jobs", "[]").await.problem(), "no_bulk");
    assert!(running.stop().await);
}

// The stream reports job events as well as call events.
#[tokio::test(flavor = "multi_thread")]
async fn the_event_stream_reports_jobs() {
    let running = start().await;
    let mut curl = std::process::Command::new("curl");
    let stream = format!("http://{}/v1/events?api=bulk", running.address());
    curl.args(["-sN", &stream]);
    let mut curl = Process::start(curl).expect("curl is installed");
    curl.wait_for_line(": here", PATIENCE).expect("it listens");
    running.post("/v1/bulk/jobs?action=nightly", JOBS).await;
    let line = curl.wait_for_line("bulk_submitted", PATIENCE);
    line.expect("a job event");
    let facts = curl.wait_for_line("data: ", PATIENCE).expect("with facts");
    assert!(facts.contains("\"jobs\":3"), "{facts}");
    assert!(running.stop().await);
}

// Every job in a file without a name is lost with the process.
#[tokio::test]
async fn a_program_without_its_job_file_is_not_ready_and_takes_no_job() {
    let running = TestProgram::with_bulk(&format!("{QUIET}{STOCK}")).await;
    let job = r#"[{"api":"stock","path":"/a"}]"#;
    assert_eq!(running.get("/readyz").await.status, 200);
    let dir = running.jobs.as_ref().expect("a directory").path();
    std::fs::rename(dir.join("jobs.db"), dir.join("away")).expect("moved");
    let ready = running.get("/readyz").await;
    assert_eq!(ready.status, 503);
    assert_eq!(ready.json()["reasons"], json!(["store_unavailable"]));
    let refused = running.post("/v1/bulk/jobs", job).await;
    assert_eq!(refused.status, 503, "{}", refused.text());
    assert!(refused.text().contains("removed or replaced"), "{}", refused.text());
    std::fs::rename(dir.join("away"), dir.join("jobs.db")).expect("moved back");
    assert_eq!(running.get("/readyz").await.status, 200);
    let taken = running.post("/v1/bulk/jobs", job).await;
    assert_eq!(taken.status, 200, "{}", taken.text());
}
