//! Throttles of jobs, as reported on the metrics page, in the summary, and to the webhook.

use std::time::Duration;

use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use http::HeaderName;
use outflow_bulk::{ActionSummary, JobSubmission, Webhook};
use outflow_core::Clock;
use outflow_mock::{Arrival, MockApi, MockResponse, Script, ScriptMatch};
use outflow_store::{ActionSpec, BatchPosition};
use secrecy::SecretString;
use tokio::time::sleep;

use super::support::{Plan, World, by_caller, get, gets, name, value};

const SECRET: &str = "secret";

/// Headers that the signature covers in addition to the body, and the signature itself.
const NOTED_HEADERS: [&str; 3] = ["webhook-id", "webhook-timestamp", "webhook-signature"];

/// Starts an API that throttles the first two calls of a tenant, and one worker, so that both belong to its
/// first job.
async fn throttled_twice() -> World {
    let throttle = MockResponse::status(429).header("retry-after", "1");
    let script = Script::new().rule(ScriptMatch::path("/acme/**").first(2), throttle);
    let api = NOTED_HEADERS
        .iter()
        .fold(MockApi::builder().script(script), |api, header| {
            api.noting(HeaderName::from_static(header))
        });
    let mut plan = Plan::scripted(Script::new()).with(|settings| {
        settings.workers.min = Some(1);
        settings.workers.max = Some(1);
    });
    plan.mock = by_caller(api);
    plan.start_with(|builder| builder.webhook_secret(SecretString::from(SECRET)))
        .await
}

/// Returns the notification body for an action of eight jobs that are all done.
fn body(summary: &ActionSummary) -> String {
    let mean = summary.mean.as_secs_f64() * 1e3;
    format!(
        "{{\"type\":\"bulk.action.finished\",\"action\":\"a\",\"stage\":\"COMPLETED\",\"total\":8,\
         \"success\":8,\"failed\":0,\"cancelled\":0,\"throttles_per_job\":0.25,\"mean_ms\":{mean:?},\
         \"failed_ids\":[]}}"
    )
}

/// Checks that a notification had this body. The audit stores no bodies, but the signature covers every byte.
fn has_body(notification: &Arrival, body: &str) -> bool {
    let noted: Vec<_> = notification.headers.iter().map(|(_, value)| value).collect();
    let noted = noted.iter().map(|value| value.to_str().expect("text"));
    let [id, at, signature] = noted.collect::<Vec<_>>().try_into().expect("three headers");
    let key = hmac::Key::new(hmac::HMAC_SHA256, SECRET.as_bytes());
    let code = hmac::sign(&key, format!("{id}.{at}.{body}").as_bytes());
    signature == format!("v1,{}", BASE64.encode(code))
}

// Two throttles over eight jobs are a quarter for each, in every report. One more job of the tenant waits for
// an hour: a tenant without work is not on the page.
#[tokio::test(start_paused = true)]
async fn throttles_per_job_are_equal_in_every_report() {
    let world = throttled_twice().await;
    let mut later = get("acme", 8);
    later.not_before = Some(world.time.wall().saturating_add(Duration::from_hours(1)));
    world.submit("later", vec![later]).await;
    let hook = Webhook {
        api: "mock".to_owned(),
        path: "/hook".to_owned(),
    };
    let submission = JobSubmission {
        action: Some(ActionSpec {
            note: Some(hook.note()),
            ..ActionSpec::new(name("a"))
        }),
        rest: BatchPosition::Last,
        jobs: gets("acme", 8),
    };
    world.engine.submit(submission).await.expect("accepted");
    let report = world.finished("a").await;
    assert_eq!((report.counts.done, report.counts.throttles), (8, 2));
    let summary = world.engine.summary(&name("a")).await.expect("asked");
    let summary = summary.expect("known");
    assert_eq!(summary.throttles_per_job.to_string(), "0.25");
    let audit = world.mock.audit();
    let mut notifications = audit.arrivals().iter().filter(|one| &*one.path == "/hook");
    let notification = notifications.next().expect("it was sent");
    let body = body(&summary);
    assert!(has_body(notification, &body), "{body}");
    sleep(Duration::from_secs(6)).await;
    let series = "bulk_action_congestion_avg_throttle_per_job{groupId=\"acme\"}";
    assert_eq!(value(&world, series), Some(0.25));
    let state = world.engine.congestion(&name("acme")).await.expect("asked");
    assert_eq!(state.expect("known").throttles_per_job, Some(0.25));
}
