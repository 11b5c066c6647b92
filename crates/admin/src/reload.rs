//! Configuration changes at run time: a reload, or one variable.
//!
//! Both are all or nothing, and [`ProgramState`](crate::ProgramState) applies them. A rejected configuration is
//! reported with every diagnostic and its position.

use axum::extract::State;
use axum::{Extension, Json};
use http::StatusCode;
use outflow::ReloadChanges;
use outflow::config::{show_name, show_value};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use smol_str::{SmolStr, format_smolstr};

use super::AdminState;
use super::api_param::ApiParam;
use super::audit::{AuditActor, AuditChange};
use super::bulk::AuditReason;
use super::json_body::JsonBody;
use super::problem::{AdminProblem, JsonResult};
use crate::ReloadFailure;

/// Variable and its new value.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct OverrideBody {
    variable: SmolStr,
    value: OverrideValue,
    reason: Option<SmolStr>,
}

/// Value as text of a configuration file, or as a whole number.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum OverrideValue {
    Number(u64),
    Text(SmolStr),
}

/// Changes between the old and the new configuration.
#[derive(Debug, Serialize)]
pub(crate) struct ReloadDifference {
    added: Vec<SmolStr>,
    removed: Vec<SmolStr>,
    changed: Vec<SmolStr>,
    /// Keys whose new values apply after a restart.
    restart: Vec<String>,
}

/// Reloads the configuration.
pub(crate) async fn reload(
    State(admin): AdminState,
    Extension(actor): Extension<AuditActor>,
    JsonBody(audit): JsonBody<AuditReason>,
) -> JsonResult<ReloadDifference> {
    let changes = admin.program.reload()?;
    let change = AuditChange {
        action: "reload",
        api: None,
        group: None,
        reason: audit.reason,
    };
    admin.record(change, &actor);
    Ok(Json(ReloadDifference::from_changes(changes)))
}

/// Sets one variable of an API until the program ends.
pub(crate) async fn set_variable(
    State(admin): AdminState,
    Extension(actor): Extension<AuditActor>,
    ApiParam(api): ApiParam,
    JsonBody(set): JsonBody<OverrideBody>,
) -> JsonResult<ReloadDifference> {
    if !is_settable(&set.variable) {
        return Err(fixed_variable(&set.variable));
    }
    let value = set.value.text();
    let changes = admin.program.set_variable(&api, &set.variable, &value)?;
    let shown = (show_name(&set.variable), show_value(&set.variable, &value));
    let assignment = format_smolstr!("{} = {}", shown.0, shown.1);
    let change = AuditChange {
        action: "set_variable",
        api: Some(api),
        group: None,
        reason: Some(match set.reason {
            Some(reason) => format_smolstr!("{assignment}: {reason}"),
            None => assignment,
        }),
    };
    admin.record(change, &actor);
    Ok(Json(ReloadDifference::from_changes(changes)))
}

/// Returns false for keys that say where calls go and what they carry: with them, a local program that reaches
/// this port could send a key, or the content of a file, to a server of its own.
fn is_settable(variable: &str) -> bool {
    let first = variable.split('.').next().unwrap_or_default();
    !FIXED_KEYS.contains(&first)
}

fn fixed_variable(variable: &str) -> AdminProblem {
    let variable = show_name(variable);
    let detail = format!("`{variable}` cannot be set while the program runs: change it in the file, and reload");
    AdminProblem::new(StatusCode::UNPROCESSABLE_ENTITY, "configuration", detail)
}

const FIXED_KEYS: [&str; 10] = [
    "addresses",
    "api_key",
    "api_key_env",
    "api_key_file",
    "base_url",
    "headers",
    "key",
    "preset",
    "proxy",
    "trust",
];

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
        let invalid = |detail| Self::new(StatusCode::UNPROCESSABLE_ENTITY, "configuration", detail);
        match failure {
            ReloadFailure::UnknownApi => Self::unknown_api(),
            ReloadFailure::Config(diagnostics) => {
                let all = diagnostics.iter().map(|diagnostic| json!(diagnostic));
                let all = Value::Array(all.collect());
                invalid(diagnostics.to_string()).with("diagnostics", all)
            }
            ReloadFailure::Refused(reason) => invalid(reason),
        }
    }
}
