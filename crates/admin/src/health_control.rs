//! What operators change: the state in which an API is held.
//!
//! Every change goes through the client's own doors and is noted in the audit.

use std::sync::Arc;

use axum::extract::{Query, State};
use axum::{Extension, Json};
use http::StatusCode;
use outflow::core::HealthOverride;
use outflow::{HealthScope, Target, Upstream};
use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

use super::Admin;
use super::api_param::ApiParam;
use super::audit::{AuditActor, AuditChange};
use super::json_body;
use super::problem::AdminProblem;
use super::snapshot::{HealthView, healths};

/// A state to hold an API in.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ForceBody {
    state: HealthParam,
    group: Option<SmolStr>,
    reason: Option<SmolStr>,
}

/// The states that can be asked for.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum HealthParam {
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
pub(crate) struct ReleaseBody {
    group: Option<SmolStr>,
    reason: Option<SmolStr>,
}

/// The states of an API after a change.
#[derive(Debug, Serialize)]
pub(crate) struct HealthViews {
    api: SmolStr,
    health: Vec<HealthView>,
}

/// Holds an API, or one group of it, in a state.
pub(crate) async fn force(
    State(admin): State<Arc<Admin>>,
    Extension(who): Extension<AuditActor>,
    ApiParam(api): ApiParam,
    json_body::JsonBody(force): json_body::JsonBody<ForceBody>,
) -> Result<Json<HealthViews>, AdminProblem> {
    let door = admin.upstream(&api)?;
    let (hold, action) = force.state.hold()?;
    let group = group(&admin, &door, force.group.as_deref())?;
    door.force_health(group, hold);
    let change = AuditChange {
        action,
        api: Some(api),
        group: force.group,
        reason: force.reason,
    };
    admin.note(change, &who);
    Ok(Json(HealthViews::from_upstream(&door)))
}

/// Lets go of what was held.
pub(crate) async fn release(
    State(admin): State<Arc<Admin>>,
    Extension(who): Extension<AuditActor>,
    ApiParam(api): ApiParam,
    query: Result<Query<ReleaseBody>, axum::extract::rejection::QueryRejection>,
) -> Result<Json<HealthViews>, AdminProblem> {
    let Query(released) = query.map_err(|why| AdminProblem::bad(why.body_text()))?;
    let door = admin.upstream(&api)?;
    let group = group(&admin, &door, released.group.as_deref())?;
    door.release_health(group);
    let change = AuditChange {
        action: "release",
        api: Some(api),
        group: released.group,
        reason: released.reason,
    };
    admin.note(change, &who);
    Ok(Json(HealthViews::from_upstream(&door)))
}

impl HealthParam {
    fn hold(self) -> Result<(HealthOverride, &'static str), AdminProblem> {
        match self {
            Self::Normal => Ok((HealthOverride::Normal, "hold_normal")),
            Self::Throttle => Ok((HealthOverride::Throttle, "hold_throttle")),
            Self::Sleep | Self::Offline => Ok((HealthOverride::Sleep, "hold_offline")),
            Self::CacheOnly => Ok((HealthOverride::CacheOnly, "hold_cache_only")),
            Self::HalfOpen => {
                let detail = "half_open ends by its own probes and cannot be held: release the API, \
                              or hold it in throttle";
                let status = StatusCode::UNPROCESSABLE_ENTITY;
                Err(AdminProblem::new(status, "not_a_hold", detail))
            }
        }
    }
}

impl HealthViews {
    fn from_upstream(door: &Upstream) -> Self {
        Self {
            api: door.name().clone(),
            health: healths(&door.report()),
        }
    }
}

/// The group that is meant. One that shares its state with others cannot be held alone.
fn group(
    admin: &Admin,
    door: &Upstream,
    name: Option<&str>,
) -> Result<Option<Target>, AdminProblem> {
    let Some(name) = name else {
        return Ok(None);
    };
    let target = door.group(name).ok_or_else(AdminProblem::unknown_group)?;
    let scope = admin
        .configured(door.name())
        .map(|api| api.rules.health_scope);
    if scope == Some(HealthScope::Group) {
        return Ok(Some(target));
    }
    let detail = "the groups of this API share one state: leave `group` out, or set health.scope = \
                  \"group\"";
    Err(AdminProblem::new(
        StatusCode::CONFLICT,
        "shared_state",
        detail,
    ))
}
