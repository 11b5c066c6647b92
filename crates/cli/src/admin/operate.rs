//! What operators change: the state in which an API is held.
//!
//! Every change goes through the client's own doors and is noted in the audit.

use std::sync::Arc;

use axum::extract::{Query, State};
use axum::{Extension, Json};
use http::StatusCode;
use outflow::core::Hold;
use outflow::{HealthScope, Target, Upstream};
use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

use super::Admin;
use super::audit::{Change, Who};
use super::body;
use super::named::Named;
use super::problem::Problem;
use super::snapshot::{HealthView, healths};

/// A state to hold an API in.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Force {
    state: Wanted,
    group: Option<SmolStr>,
    reason: Option<SmolStr>,
}

/// The states that can be asked for.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Wanted {
    Normal,
    Throttle,
    Sleep,
    Offline,
    HalfOpen,
    CacheOnly,
}

/// Which group is let go.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Released {
    group: Option<SmolStr>,
    reason: Option<SmolStr>,
}

/// The states of an API after a change.
#[derive(Debug, Serialize)]
pub(super) struct Healths {
    api: SmolStr,
    health: Vec<HealthView>,
}

/// Holds an API, or one group of it, in a state.
pub(super) async fn force(
    State(admin): State<Arc<Admin>>,
    Extension(who): Extension<Who>,
    Named(api): Named,
    body::Json(force): body::Json<Force>,
) -> Result<Json<Healths>, Problem> {
    let door = admin.door(&api)?;
    let (hold, action) = force.state.hold()?;
    let group = group(&admin, &door, force.group.as_deref())?;
    door.force(group, hold);
    let change = Change {
        action,
        api: Some(api),
        group: force.group,
        reason: force.reason,
    };
    admin.note(change, &who);
    Ok(Json(Healths::of(&door)))
}

/// Lets go of what was held.
pub(super) async fn release(
    State(admin): State<Arc<Admin>>,
    Extension(who): Extension<Who>,
    Named(api): Named,
    query: Result<Query<Released>, axum::extract::rejection::QueryRejection>,
) -> Result<Json<Healths>, Problem> {
    let Query(released) = query.map_err(|why| Problem::bad(why.body_text()))?;
    let door = admin.door(&api)?;
    let group = group(&admin, &door, released.group.as_deref())?;
    door.release(group);
    let change = Change {
        action: "release",
        api: Some(api),
        group: released.group,
        reason: released.reason,
    };
    admin.note(change, &who);
    Ok(Json(Healths::of(&door)))
}

impl Wanted {
    fn hold(self) -> Result<(Hold, &'static str), Problem> {
        match self {
            Self::Normal => Ok((Hold::Normal, "hold_normal")),
            Self::Throttle => Ok((Hold::Throttle, "hold_throttle")),
            Self::Sleep | Self::Offline => Ok((Hold::Sleep, "hold_offline")),
            Self::CacheOnly => Ok((Hold::CacheOnly, "hold_cache_only")),
            Self::HalfOpen => {
                let detail = "half_open ends by its own probes and cannot be held: release the API, \
                              or hold it in throttle";
                let status = StatusCode::UNPROCESSABLE_ENTITY;
                Err(Problem::new(status, "not_a_hold", detail))
            }
        }
    }
}

impl Healths {
    fn of(door: &Upstream) -> Self {
        Self {
            api: door.name().clone(),
            health: healths(&door.report()),
        }
    }
}

/// The group that is meant. One that shares its state with others cannot be held alone.
fn group(admin: &Admin, door: &Upstream, name: Option<&str>) -> Result<Option<Target>, Problem> {
    let Some(name) = name else {
        return Ok(None);
    };
    let target = door.group(name).ok_or_else(Problem::unknown_group)?;
    let scope = admin
        .configured(door.name())
        .map(|api| api.rules.health_scope);
    if scope == Some(HealthScope::Group) {
        return Ok(Some(target));
    }
    let detail = "the groups of this API share one state: leave `group` out, or set health.scope = \
                  \"group\"";
    Err(Problem::new(StatusCode::CONFLICT, "shared_state", detail))
}
