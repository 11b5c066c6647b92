//! Another configuration while the program runs: read again, or one variable set by hand.
//!
//! Both are all or nothing and take the same way, which is the station's. What was not taken is answered
//! with every mistake, each with its place.

use std::sync::Arc;

use axum::extract::State;
use axum::{Extension, Json};
use http::StatusCode;
use outflow::Changes;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use smol_str::{SmolStr, format_smolstr};

use super::Admin;
use super::audit::{Change, Who};
use super::body;
use super::named::Named;
use super::problem::Problem;
use crate::reload::CannotReload;

/// A wish to read the configuration again.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Again {
    reason: Option<SmolStr>,
}

/// A variable and its new value.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Set {
    variable: SmolStr,
    value: Said,
    reason: Option<SmolStr>,
}

/// A value as it would be written in a file, or a whole number.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Said {
    Number(u64),
    Text(SmolStr),
}

/// What is different now.
#[derive(Debug, Serialize)]
pub(super) struct Difference {
    added: Vec<SmolStr>,
    removed: Vec<SmolStr>,
    changed: Vec<SmolStr>,
    /// Keys whose new value waits for the next start.
    restart: Vec<String>,
}

/// Reads the configuration again.
pub(super) async fn reload(
    State(admin): State<Arc<Admin>>,
    Extension(who): Extension<Who>,
    body::Json(again): body::Json<Again>,
) -> Result<Json<Difference>, Problem> {
    let changes = admin.station.reload()?;
    let change = Change {
        action: "reload",
        api: None,
        group: None,
        reason: again.reason,
    };
    admin.note(change, &who);
    Ok(Json(Difference::of(changes)))
}

/// Sets one variable of an API until the program ends.
pub(super) async fn set(
    State(admin): State<Arc<Admin>>,
    Extension(who): Extension<Who>,
    Named(api): Named,
    body::Json(set): body::Json<Set>,
) -> Result<Json<Difference>, Problem> {
    let value = set.value.text();
    let changes = admin.station.set(&api, &set.variable, &value)?;
    let said = format_smolstr!("{} = {value}", set.variable);
    let change = Change {
        action: "set_variable",
        api: Some(api),
        group: None,
        reason: Some(match set.reason {
            Some(reason) => format_smolstr!("{said}: {reason}"),
            None => said,
        }),
    };
    admin.note(change, &who);
    Ok(Json(Difference::of(changes)))
}

impl Said {
    fn text(&self) -> SmolStr {
        match self {
            Self::Number(number) => format_smolstr!("{number}"),
            Self::Text(text) => text.clone(),
        }
    }
}

impl Difference {
    fn of(changes: Changes) -> Self {
        Self {
            added: changes.added,
            removed: changes.removed,
            changed: changes.changed,
            restart: changes.restart,
        }
    }
}

impl From<CannotReload> for Problem {
    fn from(why: CannotReload) -> Self {
        let detail = why.to_string();
        let refused = |detail| Self::new(StatusCode::UNPROCESSABLE_ENTITY, "configuration", detail);
        match &why {
            CannotReload::UnknownApi(_) => Self::unknown_api(),
            CannotReload::Config(mistakes) => {
                let all = mistakes.iter().map(|mistake| json!(mistake));
                refused(detail).with("mistakes", Value::Array(all.collect()))
            }
            _ => refused(detail),
        }
    }
}
