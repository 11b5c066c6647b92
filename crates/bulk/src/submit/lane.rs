//! The queue of a job.
//!
//! Jobs that meet the same limits share a lane: calls of one group of one API, or tasks of one handler. A tenant
//! whose calls of one group wait can still start those of another.

use outflow::{DEFAULT_GROUP, Outflow, Target, Upstream};
use outflow_store::Name;

use crate::error::BulkError;

/// A lane, read from its name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Lane {
    /// Calls of one group of an API.
    Api {
        /// API.
        api: String,
        /// Group, if not the default one.
        group: Option<String>,
    },
    /// Tasks of a handler.
    Handler(String),
}

impl Lane {
    /// Parses the name of a lane.
    pub fn from_name(name: &Name) -> Self {
        let text = name.as_str();
        if let Some(handler) = text.strip_prefix(HANDLER) {
            return Self::Handler(handler.to_owned());
        }
        let (api, group) = text
            .split_once('/')
            .map_or((text, None), |(api, group)| (api, Some(group)));
        Self::Api {
            api: api.to_owned(),
            group: group.map(str::to_owned),
        }
    }

    /// Returns true if two lanes are of one API.
    pub(crate) fn share_api(one: &Name, other: &Name) -> bool {
        match (Self::from_name(one), Self::from_name(other)) {
            (Self::Api { api: one, .. }, Self::Api { api: other, .. }) => one == other,
            _ => one == other,
        }
    }

    /// Returns the upstream and the target of this lane's jobs. An unknown group is the default one; a handler and
    /// an unknown API have none.
    pub(crate) fn upstream(&self, client: &Outflow) -> Option<(Upstream, Target)> {
        let Self::Api { api, group } = self else {
            return None;
        };
        let upstream = client.upstream(api)?;
        let group = upstream.group(group.as_deref().unwrap_or(DEFAULT_GROUP));
        let target = group.unwrap_or_else(|| upstream.route(&http::Method::GET, "/"));
        Some((upstream, target))
    }

    /// Returns the lane of a call with this method and path.
    pub(crate) fn name_for_call(upstream: &Upstream, method: &http::Method, path: &str) -> Result<Name, BulkError> {
        Self::name_for_target(upstream, upstream.route(method, path))
    }

    /// Returns the lane of a call of this group.
    pub(crate) fn name_for_target(upstream: &Upstream, target: Target) -> Result<Name, BulkError> {
        let group = upstream.group_name(target);
        let name = match group.as_str() {
            DEFAULT_GROUP => upstream.name().to_string(),
            group => format!("{}/{group}", upstream.name()),
        };
        Name::new(&name).map_err(|invalid| BulkError::invalid(format!("lane {name:?}: {invalid}")))
    }

    /// Returns the lane of a handler.
    pub(crate) fn name_for_handler(name: &str) -> Result<Name, BulkError> {
        Name::new(&format!("{HANDLER}{name}"))
            .map_err(|invalid| BulkError::invalid(format!("handler {name:?}: {invalid}")))
    }
}

/// No name of an API begins with it.
const HANDLER: &str = "@";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lane_is_parsed_from_its_name() {
        let parse = |text: &str| Lane::from_name(&Name::new(text).expect("a name"));
        let api = |group: Option<&str>| Lane::Api {
            api: "tmdb".to_owned(),
            group: group.map(str::to_owned),
        };
        assert_eq!(parse("tmdb"), api(None));
        assert_eq!(parse("tmdb/search"), api(Some("search")));
        assert_eq!(parse("@resize"), Lane::Handler("resize".to_owned()));
    }
}
