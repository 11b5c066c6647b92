//! Which call is meant: an API, and a group of it or a method and a path.
//!
//! The same words mean the same call wherever one is named: to ask for a permit, to check, to have a
//! wait explained.

use http::Method;
use outflow::core::{Cost, Priority};
use outflow::{Ask, DEFAULT_GROUP, Target, Upstream};
use serde::Deserialize;
use smol_str::SmolStr;

use super::Admin;
use super::problem::Problem;

/// A call, as a caller names it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Aim {
    pub(super) api: SmolStr,
    pub(super) group: Option<SmolStr>,
    pub(super) method: Option<SmolStr>,
    pub(super) path: Option<SmolStr>,
    pub(super) cost: Option<u64>,
    pub(super) priority: Option<Urgency>,
}

/// How urgent a call is.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Urgency {
    Low,
    Normal,
    High,
}

/// A call that was found: whose door, and what it is there.
#[derive(Clone, Debug)]
pub(super) struct Aimed {
    pub(super) door: Upstream,
    pub(super) target: Target,
    priority: Priority,
}

impl Aim {
    /// Finds what is meant.
    ///
    /// # Errors
    /// If there is no such API or group, or the words contradict each other.
    pub(super) fn find(&self, admin: &Admin) -> Result<Aimed, Problem> {
        let door = admin.door(&self.api)?;
        let target = match (&self.group, &self.path) {
            (Some(_), Some(_)) => {
                return Err(Problem::bad("name a group or a path, not both"));
            }
            (Some(group), None) => door.group(group).ok_or_else(Problem::unknown_group)?,
            (None, Some(path)) => door.route(&self.method()?, path),
            (None, None) => door
                .group(DEFAULT_GROUP)
                .ok_or_else(Problem::unknown_group)?,
        };
        let cost = self.cost.map_or(target.cost(), Cost::new);
        Ok(Aimed {
            target: target.costing(cost),
            door,
            priority: self.priority.map_or(Priority::Normal, Urgency::priority),
        })
    }

    fn method(&self) -> Result<Method, Problem> {
        let Some(method) = &self.method else {
            return Ok(Method::GET);
        };
        let read = Method::from_bytes(method.as_bytes());
        read.map_err(|_| Problem::bad("`method` is none: write it like GET"))
    }
}

impl Aimed {
    /// What is asked of the door.
    pub(super) const fn ask(&self) -> Ask {
        Ask::new(self.target).priority(self.priority)
    }
}

impl Urgency {
    const fn priority(self) -> Priority {
        match self {
            Self::Low => Priority::Low,
            Self::Normal => Priority::Normal,
            Self::High => Priority::High,
        }
    }
}
