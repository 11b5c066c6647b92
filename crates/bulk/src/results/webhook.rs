//! Tells an address that an action is over.
//!
//! The address is an API of the configuration, so that what is told passes the same door as everything
//! else: an address that anybody may name would be a way to send to anywhere. It is signed as the
//! Standard Webhooks say, so that whoever gets it can check it with the libraries there are.

use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use outflow_store::{ActionReport, JobStore, Name};
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};

use crate::engine::EngineContext;
use crate::error::BulkError;
use crate::results::summary::ActionSummary;

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
    /// That of an action, if it has one.
    pub(crate) fn from_report(report: &ActionReport) -> Option<Self> {
        serde_json::from_str(report.spec.note.as_deref()?).ok()
    }

    /// As an action's note.
    pub fn note(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// What is told.
#[derive(Serialize)]
struct WebhookBody<'a> {
    r#type: &'static str,
    action: &'a str,
    stage: &'static str,
    total: u64,
    success: u64,
    failed: u64,
    cancelled: u64,
    throttles_per_job: f64,
    mean_ms: f64,
    failed_ids: Vec<&'a str>,
}

/// Tells it.
pub(crate) async fn deliver<S: JobStore>(
    hub: &EngineContext<S>,
    hook: &Webhook,
    report: &ActionReport,
) -> Told {
    let Ok(summary) = ActionSummary::new(hub.store.as_ref(), report).await else {
        return Told::NotYet;
    };
    let body = serde_json::to_vec(&body(&summary)).unwrap_or_default();
    let opened = report.opened.as_duration().as_millis();
    let id = format!("{}-{opened}", report.spec.id);
    let at = hub.clock.wall().as_duration().as_secs().to_string();
    let mut call = hub
        .client
        .post(&hook.api, &hook.path)
        .header("content-type", "application/json")
        .header("webhook-id", &id)
        .header("webhook-timestamp", &at)
        .idempotency_key(&id)
        .no_retry();
    if let Some(secret) = &hub.secret {
        call = call.header("webhook-signature", signature(secret, &id, &at, &body));
    }
    match call.body(body).send().await {
        Ok(answer) if answer.status().is_success() => Told::Yes,
        Ok(_) | Err(_) => Told::NotYet,
    }
}

fn body(summary: &ActionSummary) -> WebhookBody<'_> {
    WebhookBody {
        r#type: "bulk.action.finished",
        action: summary.action.as_str(),
        stage: summary.stage.as_str(),
        total: summary.total,
        success: summary.success,
        failed: summary.failed,
        cancelled: summary.cancelled,
        throttles_per_job: summary.throttles_per_job,
        mean_ms: summary.mean.as_secs_f64() * 1e3,
        failed_ids: summary.failed_ids.iter().map(Name::as_str).collect(),
    }
}

/// `v1,` and the code over id, time and body.
fn signature(secret: &SecretString, id: &str, at: &str, body: &[u8]) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, &key(secret.expose_secret()));
    let mut context = hmac::Context::with_key(&key);
    context.update(id.as_bytes());
    context.update(b".");
    context.update(at.as_bytes());
    context.update(b".");
    context.update(body);
    format!("v1,{}", BASE64.encode(context.sign()))
}

/// A secret as the libraries hand it out is a prefix and the key in base64; any other is the key itself.
fn key(secret: &str) -> Vec<u8> {
    let coded = secret.strip_prefix(CODED);
    let decoded = coded.and_then(|coded| BASE64.decode(coded).ok());
    decoded.unwrap_or_else(|| secret.as_bytes().to_vec())
}

/// Whether a secret is what it looks like.
pub(crate) fn check(secret: &SecretString) -> Result<(), BulkError> {
    match secret.expose_secret().strip_prefix(CODED) {
        Some(coded) if BASE64.decode(coded).is_err() => Err(BulkError::invalid(format!(
            "the webhooks' secret begins with {CODED} and goes on with what is no base64: copy it whole"
        ))),
        _ => Ok(()),
    }
}

/// What a secret begins with whose key is in base64.
const CODED: &str = "whsec_";

#[cfg(test)]
mod tests {
    use super::*;

    // Reckoned with another program: HMAC-SHA256 of `msg_1.1700000000.{}` under `secret`.
    #[test]
    fn the_signature_is_the_one_that_others_reckon() {
        let secret = SecretString::from("secret");
        let signed = signature(&secret, "msg_1", "1700000000", b"{}");
        assert_eq!(signed, "v1,A5oIrJxXPB/PkULSoVu0e4khvPiqpF9vljmhkSKg0FI=");
        let coded = SecretString::from("whsec_c2VjcmV0");
        assert_eq!(signature(&coded, "msg_1", "1700000000", b"{}"), signed);
        check(&coded).expect("base64");
        check(&secret).expect("the key itself");
    }

    #[test]
    fn a_secret_that_was_cut_off_is_refused_and_not_told() {
        let wrong = check(&SecretString::from("whsec_CANARY?")).expect_err("no base64");
        assert!(!wrong.to_string().contains("CANARY"), "{wrong}");
    }
}
