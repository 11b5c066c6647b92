//! Routes that override the health state of an API.
//!
//! Every change goes through the upstream of the API and is recorded in the audit log.

use axum::extract::State;
use axum::{Extension, Json};
use http::StatusCode;
use outflow::core::HealthOverride;
use outflow::{HealthScope, OverrideNote, Target, Upstream};
use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

use super::api_param::ApiParam;
use super::audit::{AuditActor, AuditChange, truncate};
use super::json_body::JsonBody;
use super::problem::{AdminProblem, JsonResult};
use super::queries::{QueryResult, parse_query};
use super::snapshot::{HealthView, healths};
use super::{Admin, AdminState};

/// Override of a health state.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ForceBody {
    state: HealthParam,
    group: Option<SmolStr>,
    reason: Option<SmolStr>,
}

/// Health state in a request.
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

/// End of an override.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReleaseBody {
    group: Option<SmolStr>,
    reason: Option<SmolStr>,
}

/// Health states of an API after a change.
#[derive(Debug, Serialize)]
pub(crate) struct HealthViews {
    api: SmolStr,
    health: Vec<HealthView>,
}

/// Overrides the health state of an API or one of its groups.
pub(crate) async fn force(
    State(admin): AdminState,
    Extension(actor): Extension<AuditActor>,
    ApiParam(api): ApiParam,
    JsonBody(force): JsonBody<ForceBody>,
) -> JsonResult<HealthViews> {
    let upstream = admin.upstream(&api)?;
    let (state, action) = force.state.to_override()?;
    let group = find_group(&admin, &upstream, force.group.as_deref())?;
    let note = OverrideNote::new(actor.0.clone(), force.reason.clone().map(truncate));
    upstream.force_health_by(group, state, &note);
    let change = AuditChange {
        action,
        api: Some(api),
        group: force.group,
        reason: force.reason,
    };
    admin.record(change, &actor);
    Ok(Json(HealthViews::from_upstream(&upstream)))
}

/// Ends the override of an API or one of its groups.
pub(crate) async fn release(
    State(admin): AdminState,
    Extension(actor): Extension<AuditActor>,
    ApiParam(api): ApiParam,
    query: QueryResult<ReleaseBody>,
) -> JsonResult<HealthViews> {
    let release = parse_query(query)?;
    let upstream = admin.upstream(&api)?;
    let group = find_group(&admin, &upstream, release.group.as_deref())?;
    upstream.release_health(group);
    let change = AuditChange {
        action: "release",
        api: Some(api),
        group: release.group,
        reason: release.reason,
    };
    admin.record(change, &actor);
    Ok(Json(HealthViews::from_upstream(&upstream)))
}

impl HealthParam {
    /// Returns the override and its identifier in the audit log.
    fn to_override(self) -> Result<(HealthOverride, &'static str), AdminProblem> {
        match self {
            Self::Normal => Ok((HealthOverride::Normal, "hold_normal")),
            Self::Throttle => Ok((HealthOverride::Throttle, "hold_throttle")),
            Self::Sleep | Self::Offline => Ok((HealthOverride::Sleep, "hold_offline")),
            Self::CacheOnly => Ok((HealthOverride::CacheOnly, "hold_cache_only")),
            Self::HalfOpen => {
                let detail = "half_open ends by its own probes and cannot be forced: release the API, \
                              or force throttle";
                let status = StatusCode::UNPROCESSABLE_ENTITY;
                Err(AdminProblem::new(status, "not_a_hold", detail))
            }
        }
    }
}

impl HealthViews {
    fn from_upstream(upstream: &Upstream) -> Self {
        Self {
            api: upstream.name().clone(),
            health: healths(&upstream.report()),
        }
    }
}

/// Finds the group. A group that shares its health state with others has no override of its own.
fn find_group(admin: &Admin, upstream: &Upstream, name: Option<&str>) -> Result<Option<Target>, AdminProblem> {
    let Some(name) = name else {
        return Ok(None);
    };
    let target = upstream.group(name).ok_or_else(AdminProblem::unknown_group)?;
    let scope = admin.configured(upstream.name()).map(|api| api.rules.health_scope);
    if scope == Some(HealthScope::Group) {
        return Ok(Some(target));
    }
    let detail = "the groups of this API share one state: leave `group` out, or set health.scope = \
                  \"group\"";
    Err(AdminProblem::new(StatusCode::CONFLICT, "shared_state", detail))
}
