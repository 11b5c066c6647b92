//! Another configuration while the program runs: read again, or one variable set by hand.
//!
//! Both are all or nothing and take the same way, which is the program's. What was not taken is answered
//! with every mistake, each with its place.

use std::sync::Arc;

use axum::extract::State;
use axum::{Extension, Json};
use http::StatusCode;
use outflow::ReloadChanges;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use smol_str::{SmolStr, format_smolstr};

use super::Admin;
use super::api_param::ApiParam;
use super::audit::{AuditActor, AuditChange};
use super::json_body;
use super::problem::AdminProblem;
use crate::ReloadFailure;

/// A wish to read the configuration again.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReloadRequest {
    reason: Option<SmolStr>,
}

/// A variable and its new value.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct OverrideBody {
    variable: SmolStr,
    value: OverrideValue,
    reason: Option<SmolStr>,
}

/// A value as it would be written in a file, or a whole number.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum OverrideValue {
    Number(u64),
    Text(SmolStr),
}

/// What is different now.
#[derive(Debug, Serialize)]
pub(crate) struct ReloadDifference {
    added: Vec<SmolStr>,
    removed: Vec<SmolStr>,
    changed: Vec<SmolStr>,
    /// Keys whose new value waits for the next start.
    restart: Vec<String>,
}

/// Reads the configuration again.
pub(crate) async fn reload(
    State(admin): State<Arc<Admin>>,
    Extension(who): Extension<AuditActor>,
    json_body::JsonBody(again): json_body::JsonBody<ReloadRequest>,
) -> Result<Json<ReloadDifference>, AdminProblem> {
    let changes = admin.program.reload()?;
    let change = AuditChange {
        action: "reload",
        api: None,
        group: None,
        reason: again.reason,
    };
    admin.note(change, &who);
    Ok(Json(ReloadDifference::from_changes(changes)))
}

/// Sets one variable of an API until the program ends.
pub(crate) async fn set(
    State(admin): State<Arc<Admin>>,
    Extension(who): Extension<AuditActor>,
    ApiParam(api): ApiParam,
    json_body::JsonBody(set): json_body::JsonBody<OverrideBody>,
) -> Result<Json<ReloadDifference>, AdminProblem> {
    let value = set.value.text();
    let changes = admin.program.set_variable(&api, &set.variable, &value)?;
    let said = format_smolstr!("{} = {value}", set.variable);
    let change = AuditChange {
        action: "set_variable",
        api: Some(api),
        group: None,
        reason: Some(match set.reason {
            Some(reason) => format_smolstr!("{said}: {reason}"),
            None => said,
        }),
    };
    admin.note(change, &who);
    Ok(Json(ReloadDifference::from_changes(changes)))
}

impl OverrideValue {
    fn text(&self) -> SmolStr {
        match self {
            Self::Number(number) => format_smolstr!("{number}"),
            Self::Text(text) => text.clone(),
        }
    }
}

impl ReloadDifference {
    fn from_changes(changes: ReloadChanges) -> Self {
        Self {
            added: changes.added,
            removed: changes.removed,
            changed: changes.changed,
            restart: changes.restart,
        }
    }
}

impl From<ReloadFailure> for AdminProblem {
    fn from(failure: ReloadFailure) -> Self {
        let refused = |detail| Self::new(StatusCode::UNPROCESSABLE_ENTITY, "configuration", detail);
        match failure {
            ReloadFailure::UnknownApi => Self::unknown_api(),
            ReloadFailure::Config(diagnostics) => {
                let all = diagnostics.iter().map(|diagnostic| json!(diagnostic));
                let all = Value::Array(all.collect());
                refused(diagnostics.to_string()).with("mistakes", all)
            }
            ReloadFailure::Refused(reason) => refused(reason),
        }
    }
}
