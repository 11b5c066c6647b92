//! Which call is meant: an API, and a group of it or a method and a path.
//!
//! The same words mean the same call wherever one is named: to ask for a permit, to check, to have a
//! wait explained.

use http::Method;
use outflow::core::{Cost, Priority};
use outflow::{AcquireOptions, DEFAULT_GROUP, Target, Upstream};
use serde::Deserialize;
use smol_str::SmolStr;

use super::Admin;
use super::problem::AdminProblem;

/// A call, as a caller names it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CallTarget {
    pub(crate) api: SmolStr,
    pub(crate) group: Option<SmolStr>,
    pub(crate) method: Option<SmolStr>,
    pub(crate) path: Option<SmolStr>,
    pub(crate) cost: Option<u64>,
    pub(crate) priority: Option<PriorityParam>,
}

/// How urgent a call is.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum PriorityParam {
    Low,
    Normal,
    High,
}

/// A call that was found: whose door, and what it is there.
#[derive(Clone, Debug)]
pub(crate) struct ResolvedCall {
    pub(crate) door: Upstream,
    pub(crate) target: Target,
    priority: Priority,
}

impl CallTarget {
    /// Finds what is meant.
    ///
    /// # Errors
    /// If there is no such API or group, or the words contradict each other.
    pub(crate) fn find(&self, admin: &Admin) -> Result<ResolvedCall, AdminProblem> {
        let door = admin.upstream(&self.api)?;
        let target = match (&self.group, &self.path) {
            (Some(_), Some(_)) => {
                return Err(AdminProblem::bad("name a group or a path, not both"));
            }
            (Some(group), None) => door.group(group).ok_or_else(AdminProblem::unknown_group)?,
            (None, Some(path)) => door.route(&self.method()?, path),
            (None, None) => door
                .group(DEFAULT_GROUP)
                .ok_or_else(AdminProblem::unknown_group)?,
        };
        let cost = self.cost.map_or(target.cost(), Cost::new);
        Ok(ResolvedCall {
            target: target.with_cost(cost),
            door,
            priority: self
                .priority
                .map_or(Priority::Normal, PriorityParam::priority),
        })
    }

    fn method(&self) -> Result<Method, AdminProblem> {
        let Some(method) = &self.method else {
            return Ok(Method::GET);
        };
        let read = Method::from_bytes(method.as_bytes());
        read.map_err(|_| AdminProblem::bad("`method` is none: write it like GET"))
    }
}

impl ResolvedCall {
    /// What is asked of the door.
    pub(crate) const fn acquire_options(&self) -> AcquireOptions {
        AcquireOptions::new().with_priority(self.priority)
    }
}

impl PriorityParam {
    const fn priority(self) -> Priority {
        match self {
            Self::Low => Priority::Low,
            Self::Normal => Priority::Normal,
            Self::High => Priority::High,
        }
    }
}
