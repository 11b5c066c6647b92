//! Sends the end of an action to a webhook.
//!
//! The address is an API of the configuration, so that the request passes its limits: free addresses would let
//! callers send anywhere. The signature follows Standard Webhooks, so that existing libraries can verify it.

use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use outflow_store::{ActionReport, JobStore, Name};
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};

use super::summary::ActionSummary;
use crate::engine::EngineContext;
use crate::error::BulkError;

/// Address of a webhook, stored in an action's note.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Webhook {
    /// API that the request is sent to.
    pub api: String,
    /// Path of the request.
    pub path: String,
}

impl Webhook {
    /// Returns the webhook of an action, if it has one.
    pub(crate) fn from_report(report: &ActionReport) -> Option<Self> {
        serde_json::from_str(report.spec.note.as_deref()?).ok()
    }

    /// Formats the note of an action.
    pub fn note(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// Body of the request.
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

/// Sends the request. Returns true if the webhook accepted it.
pub(crate) async fn deliver<S: JobStore>(context: &EngineContext<S>, hook: &Webhook, report: &ActionReport) -> bool {
    let Ok(summary) = ActionSummary::new(context.store.as_ref(), report).await else {
        return false;
    };
    let body = serde_json::to_vec(&body(&summary)).unwrap_or_default();
    let opened = report.opened.as_duration().as_millis();
    let id = format!("{}-{opened}", report.spec.id);
    let at = context.clock.wall().as_duration().as_secs().to_string();
    let mut call = context
        .client
        .post(&hook.api, &hook.path)
        .header("content-type", "application/json")
        .header("webhook-id", &id)
        .header("webhook-timestamp", &at)
        .idempotency_key(&id)
        .no_retry();
    if let Some(secret) = &context.results.webhook_secret {
        call = call.header("webhook-signature", signature(secret, &id, &at, &body));
    }
    let response = call.body(body).send().await;
    response.is_ok_and(|response| response.status().is_success())
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

/// Returns `v1,` and the HMAC of id, time and body.
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

/// Returns the key of a secret: base64 after the standard prefix, or the secret itself.
fn key(secret: &str) -> Vec<u8> {
    let coded = secret.strip_prefix(CODED);
    let decoded = coded.and_then(|coded| BASE64.decode(coded).ok());
    decoded.unwrap_or_else(|| secret.as_bytes().to_vec())
}

/// Checks that a secret with the prefix is base64.
pub(crate) fn check_secret(secret: &SecretString) -> Result<(), BulkError> {
    match secret.expose_secret().strip_prefix(CODED) {
        Some(coded) if BASE64.decode(coded).is_err() => Err(BulkError::invalid(format!(
            "the webhooks' secret begins with {CODED} and is not base64 after that: copy all of it"
        ))),
        _ => Ok(()),
    }
}

/// Prefix of a secret whose key is in base64.
const CODED: &str = "whsec_";

#[cfg(test)]
mod tests {
    use super::*;

    // Computed with another program: HMAC-SHA256 of `msg_1.1700000000.{}` under `secret`.
    #[test]
    fn the_signature_equals_that_of_other_implementations() {
        let secret = SecretString::from("secret");
        let signed = signature(&secret, "msg_1", "1700000000", b"{}");
        assert_eq!(signed, "v1,A5oIrJxXPB/PkULSoVu0e4khvPiqpF9vljmhkSKg0FI=");
        let coded = SecretString::from("whsec_c2VjcmV0");
        assert_eq!(signature(&coded, "msg_1", "1700000000", b"{}"), signed);
        check_secret(&coded).expect("base64");
        check_secret(&secret).expect("the key itself");
    }

    #[test]
    fn an_incomplete_secret_is_refused_without_showing_it() {
        let invalid = check_secret(&SecretString::from("whsec_CANARY?")).expect_err("no base64");
        assert!(!invalid.to_string().contains("CANARY"), "{invalid}");
    }
}
