//! How often jobs were refused, as it is told: on the page, in the summary, and to the webhook.

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

/// What of a telling its signature is over, beside the body, and the signature.
const NOTED: [&str; 3] = ["webhook-id", "webhook-timestamp", "webhook-signature"];

/// An API that refuses the first two calls of a tenant, and one worker, so that both are of its first job.
async fn refused_twice() -> World {
    let refusal = MockResponse::status(429).header("retry-after", "1");
    let script = Script::new().rule(ScriptMatch::path("/acme/**").first(2), refusal);
    let api = NOTED
        .iter()
        .fold(MockApi::builder().script(script), |api, header| {
            api.noting(HeaderName::from_static(header))
        });
    let mut plan = Plan::scripted(Script::new()).with(|settings| {
        settings.workers.min = 1;
        settings.workers.max = 1;
    });
    plan.strict = by_caller(api);
    plan.start_with(|builder| builder.webhook_secret(SecretString::from(SECRET)))
        .await
}

/// The body by which a webhook is told of an action of eight that all were done.
fn body(summary: &ActionSummary) -> String {
    let mean = summary.mean.as_secs_f64() * 1e3;
    format!(
        "{{\"type\":\"bulk.action.finished\",\"action\":\"a\",\"stage\":\"COMPLETED\",\"total\":8,\
         \"success\":8,\"failed\":0,\"cancelled\":0,\"throttles_per_job\":0.25,\"mean_ms\":{mean:?},\
         \"failed_ids\":[]}}"
    )
}

/// Whether a telling had this body, which nobody keeps: the signature is over it, to the letter.
fn told(telling: &Arrival, body: &str) -> bool {
    let noted: Vec<_> = telling.headers.iter().map(|(_, value)| value).collect();
    let noted = noted.iter().map(|value| value.to_str().expect("text"));
    let [id, at, signature] = noted.collect::<Vec<_>>().try_into().expect("three headers");
    let key = hmac::Key::new(hmac::HMAC_SHA256, SECRET.as_bytes());
    let code = hmac::sign(&key, format!("{id}.{at}.{body}").as_bytes());
    signature == format!("v1,{}", BASE64.encode(code))
}

// Two refusals over eight jobs are a quarter for each, wherever it is told. One more job of the tenant waits for
// an hour: without any work it would not be on the page.
#[tokio::test(start_paused = true)]
async fn refusals_for_each_job_are_told_alike_everywhere() {
    let world = refused_twice().await;
    let mut later = get("acme", 8);
    later.not_before = Some(world.time.wall().saturating_add(Duration::from_hours(1)));
    world.submit("later", vec![later]).await;
    let hook = Webhook {
        api: "strict".to_owned(),
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
    world.engine.submit(submission).await.expect("taken");
    let report = world.finished("a").await;
    assert_eq!((report.tally.done, report.tally.throttles), (8, 2));
    let summary = world.engine.summary(&name("a")).await.expect("asked");
    let summary = summary.expect("known");
    assert_eq!(summary.throttles_per_job.to_string(), "0.25");
    let audit = world.strict.audit();
    let mut tellings = audit.arrivals().iter().filter(|one| &*one.path == "/hook");
    let telling = tellings.next().expect("it was told");
    let body = body(&summary);
    assert!(told(telling, &body), "{body}");
    sleep(Duration::from_secs(6)).await;
    let series = "bulk_action_congestion_avg_throttle_per_job{groupId=\"acme\"}";
    assert_eq!(value(&world, series), Some(0.25));
    let state = world.engine.congestion(&name("acme")).await.expect("asked");
    assert_eq!(state.expect("known").throttles_per_job, Some(0.25));
}
