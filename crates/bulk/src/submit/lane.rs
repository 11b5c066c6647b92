//! Which line a job stands in.
//!
//! Jobs that meet the same limits share a lane: those of one group of one API, or of one handler. A
//! tenant whose calls of one group are held up can so go on with those of another.

use outflow::{DEFAULT_GROUP, Outflow, Target, Upstream};
use outflow_store::Name;

use crate::error::BulkError;

/// A lane, read from its name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Lane {
    /// Calls of an API, of this group of it.
    Api {
        /// The API.
        api: String,
        /// The group, if not the one that takes what no route names.
        group: Option<String>,
    },
    /// Tasks of a handler.
    Handler(String),
}

impl Lane {
    /// The lane of a name.
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

    /// The door that jobs of this lane pass, and their place in it. A group that is not known any more is that of
    /// whatever no route names; a handler has none, nor an API that is gone.
    pub(crate) fn upstream(&self, client: &Outflow) -> Option<(Upstream, Target)> {
        let Self::Api { api, group } = self else {
            return None;
        };
        let door = client.upstream(api)?;
        let group = door.group(group.as_deref().unwrap_or(DEFAULT_GROUP));
        let target = group.unwrap_or_else(|| door.route(&http::Method::GET, "/"));
        Some((door, target))
    }

    /// The lane of a call of this method and path.
    pub(crate) fn of_call(
        door: &Upstream,
        method: &http::Method,
        path: &str,
    ) -> Result<Name, BulkError> {
        let group = door.group_name(door.route(method, path));
        let name = match group.as_str() {
            DEFAULT_GROUP => door.name().to_string(),
            group => format!("{}/{group}", door.name()),
        };
        Name::new(&name).map_err(|wrong| BulkError::invalid(format!("lane {name:?}: {wrong}")))
    }

    /// The lane of a handler.
    pub(crate) fn of_handler(name: &str) -> Result<Name, BulkError> {
        Name::new(&format!("{HANDLER}{name}"))
            .map_err(|wrong| BulkError::invalid(format!("handler {name:?}: {wrong}")))
    }
}

/// No API's name begins with it.
const HANDLER: &str = "@";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lane_is_read_as_it_is_written() {
        let read = |text: &str| Lane::from_name(&Name::new(text).expect("a name"));
        let api = |group: Option<&str>| Lane::Api {
            api: "tmdb".to_owned(),
            group: group.map(str::to_owned),
        };
        assert_eq!(read("tmdb"), api(None));
        assert_eq!(read("tmdb/search"), api(Some("search")));
        assert_eq!(read("@resize"), Lane::Handler("resize".to_owned()));
    }
}
