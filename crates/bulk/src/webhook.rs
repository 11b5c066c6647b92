//! Tells an address that an action is over.
//!
//! The address is an API of the configuration, so that what is told passes the same door as everything
//! else: an address that anybody may name would be a way to send to anywhere. It is signed as the
//! Standard Webhooks say, so that whoever gets it can check it with the libraries there are.

use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use outflow::core::Throttles;
use outflow_store::{ActionReport, JobStore};
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};

use crate::engine::Hub;

/// Whether it was told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Told {
    /// It was, or there is nobody to tell.
    Yes,
    /// It could not be reached.
    NotYet,
}

/// Where to, as an action's note says it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Webhook {
    /// The API that it is sent by.
    pub api: String,
    /// The path there.
    pub path: String,
}

impl Webhook {
    /// As an action's note.
    pub fn note(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// What is told.
#[derive(Serialize)]
struct Body<'a> {
    r#type: &'static str,
    action: &'a str,
    stage: &'static str,
    total: u64,
    success: u64,
    failed: u64,
    cancelled: u64,
    throttles_per_job: f64,
    mean_ms: f64,
}

/// Tells it.
pub(crate) async fn tell<S: JobStore>(hub: &Hub<S>, report: &ActionReport) -> Told {
    let hook = report.spec.note.as_deref();
    let Some(hook) = hook.and_then(|note| serde_json::from_str::<Webhook>(note).ok()) else {
        return Told::Yes;
    };
    let body = serde_json::to_vec(&body(report)).unwrap_or_default();
    let opened = report.opened.as_duration().as_millis();
    let id = format!("{}-{opened}", report.spec.id);
    let at = hub.clock.wall().as_duration().as_secs().to_string();
    let mut call = hub
        .client
        .post(&hook.api, &hook.path)
        .header("content-type", "application/json")
        .header("webhook-id", &id)
        .header("webhook-timestamp", &at)
        .idempotency_key(&id);
    if let Some(secret) = &hub.secret {
        call = call.header("webhook-signature", signature(secret, &id, &at, &body));
    }
    match call.body(body).send().await {
        Ok(answer) if answer.status().is_success() => Told::Yes,
        Ok(_) | Err(_) => Told::NotYet,
    }
}

fn body(report: &ActionReport) -> Body<'_> {
    let tally = report.tally;
    let failed = tally.dead + tally.failed;
    let jobs = u32::try_from(tally.done.max(1)).unwrap_or(u32::MAX);
    Body {
        r#type: "bulk.action.finished",
        action: report.spec.id.as_str(),
        stage: report.stage.as_str(),
        total: tally.submitted(),
        success: tally.done,
        failed,
        cancelled: tally.cancelled,
        throttles_per_job: Throttles::new(tally.throttles, tally.done + failed).per_job(),
        mean_ms: (tally.busy / jobs).as_secs_f64() * 1e3,
    }
}

/// `v1,` and the code over id, time and body.
fn signature(secret: &SecretString, id: &str, at: &str, body: &[u8]) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.expose_secret().as_bytes());
    let mut context = hmac::Context::with_key(&key);
    context.update(id.as_bytes());
    context.update(b".");
    context.update(at.as_bytes());
    context.update(b".");
    context.update(body);
    format!("v1,{}", BASE64.encode(context.sign()))
}

#[cfg(test)]
mod tests {
    use super::*;

    // Reckoned with another program: HMAC-SHA256 of `msg_1.1700000000.{}` under `secret`.
    #[test]
    fn the_signature_is_the_one_that_others_reckon() {
        let secret = SecretString::from("secret");
        let signed = signature(&secret, "msg_1", "1700000000", b"{}");
        assert_eq!(signed, "v1,A5oIrJxXPB/PkULSoVu0e4khvPiqpF9vljmhkSKg0FI=");
    }
}
