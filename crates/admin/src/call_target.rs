//! Target of a call: an API, and one of its groups or a method and a path.
//!
//! All routes that take a call name it this way: `acquire`, `check` and `explain`.

use http::Method;
use outflow::core::{Cost, Priority};
use outflow::{AcquireOptions, DEFAULT_GROUP, Target, Upstream};
use serde::Deserialize;
use smol_str::SmolStr;

use super::Admin;
use super::problem::AdminProblem;

/// Call as the request describes it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CallTarget {
    pub(crate) api: SmolStr,
    pub(crate) group: Option<SmolStr>,
    pub(crate) method: Option<SmolStr>,
    pub(crate) path: Option<SmolStr>,
    /// Label of the endpoint; by default the pattern of the route.
    pub(crate) endpoint: Option<SmolStr>,
    pub(crate) cost: Option<u64>,
    pub(crate) priority: Option<PriorityParam>,
}

/// Priority of a call.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum PriorityParam {
    Low,
    Normal,
    High,
}

/// Call with its upstream and its target there.
#[derive(Clone, Debug)]
pub(crate) struct ResolvedCall {
    pub(crate) upstream: Upstream,
    pub(crate) target: Target,
    priority: Priority,
}

impl CallTarget {
    /// Finds the upstream and the group of the call.
    ///
    /// # Errors
    /// If there is no such API or group, or both a group and a path are given.
    pub(crate) fn resolve(&self, admin: &Admin) -> Result<ResolvedCall, AdminProblem> {
        let upstream = admin.upstream(&self.api)?;
        let target = match (&self.group, &self.path) {
            (Some(_), Some(_)) => {
                return Err(AdminProblem::bad("name a group or a path, not both"));
            }
            (Some(group), None) => upstream.group(group).ok_or_else(AdminProblem::unknown_group)?,
            (None, Some(path)) => upstream.route(&self.method()?, path),
            (None, None) => upstream.group(DEFAULT_GROUP).ok_or_else(AdminProblem::unknown_group)?,
        };
        let target = match &self.endpoint {
            Some(endpoint) => upstream.endpoint(target, endpoint),
            None => target,
        };
        let cost = self.cost.map_or(target.cost(), Cost::new);
        Ok(ResolvedCall {
            target: target.with_cost(cost),
            upstream,
            priority: self.priority.map_or(Priority::Normal, PriorityParam::priority),
        })
    }

    /// Returns the method, GET by default.
    ///
    /// # Errors
    /// If it is invalid.
    pub(crate) fn method(&self) -> Result<Method, AdminProblem> {
        let Some(method) = &self.method else {
            return Ok(Method::GET);
        };
        let parsed = Method::from_bytes(method.as_bytes());
        parsed.map_err(|_| AdminProblem::bad("`method` is invalid: write it like GET"))
    }
}

impl ResolvedCall {
    /// Returns the options for the upstream.
    pub(crate) const fn acquire_options(&self) -> AcquireOptions {
        AcquireOptions::new().with_priority(self.priority)
    }
}

impl PriorityParam {
    /// Returns the priority for the upstream.
    pub(crate) const fn priority(self) -> Priority {
        match self {
            Self::Low => Priority::Low,
            Self::Normal => Priority::Normal,
            Self::High => Priority::High,
        }
    }
}
