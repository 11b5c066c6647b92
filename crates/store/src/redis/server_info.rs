//! Facts about the server, and the check that jobs are safe there.

use crate::contract::StoreResult;
use crate::error::StoreError;

/// Facts from the `INFO` reply.
pub(super) struct ServerInfo {
    /// Identifier that the server chose when it started.
    pub(super) run_id: String,
    /// Set if the server supports functions.
    pub(super) has_functions: bool,
    /// Set if the server holds function libraries. They survive a flush of its data.
    pub(super) has_libraries: bool,
    /// Seconds since its start, rounded down.
    pub(super) uptime: u64,
}

impl ServerInfo {
    /// Parses and checks the `INFO` reply.
    pub(super) fn parse(info: &str) -> StoreResult<Self> {
        let value = |name| value_of(info, name);
        let written = value("redis_version");
        let version = parse_version(written);
        if version < MIN_VERSION {
            return Err(StoreError::refused(format_args!(
                "redis {written} is too old: use 6.2 or later, or Valkey"
            )));
        }
        let policy = value("maxmemory_policy");
        if policy != "noeviction" {
            return Err(StoreError::refused(format_args!(
                "redis may evict keys (maxmemory-policy {policy}): set it to noeviction"
            )));
        }
        if !is_primary(info) {
            return Err(StoreError::unreachable(
                "this redis is a replica: set the address of the primary, or wait for its promotion",
            ));
        }
        Ok(Self {
            run_id: value("run_id").to_owned(),
            has_functions: version >= FUNCTIONS_SINCE,
            has_libraries: !matches!(value("number_of_libraries"), "" | "0"),
            uptime: value("uptime_in_seconds").parse().unwrap_or(0),
        })
    }
}

/// Returns true if the server takes writes.
pub(super) fn is_primary(info: &str) -> bool {
    value_of(info, "role") == "master"
}

/// Returns true if the server is a node of a cluster.
pub(super) fn is_cluster(info: &str) -> bool {
    value_of(info, "cluster_enabled") == "1"
}

fn value_of<'a>(info: &'a str, name: &str) -> &'a str {
    let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.unwrap_or_default().trim()
}

/// Parses a version. Valkey reports the version of Redis whose commands it supports.
fn parse_version(text: &str) -> (u32, u32) {
    let mut parts = text.split('.').map(|part| part.parse().unwrap_or(0));
    (parts.next().unwrap_or(0), parts.next().unwrap_or(0))
}

/// The first version that takes several elements from a list at once.
const MIN_VERSION: (u32, u32) = (6, 2);

/// The first version with functions.
const FUNCTIONS_SINCE: (u32, u32) = (7, 0);

#[cfg(test)]
mod tests {
    use super::*;

    fn info(version: &str, policy: &str, role: &str) -> String {
        format!("redis_version:{version}\r\nrun_id:abc\r\nmaxmemory_policy:{policy}\r\nrole:{role}\r\n")
    }

    #[test]
    fn an_old_or_evicting_server_is_refused() {
        for good in ["6.2.0", "7.0.15", "10.1.0"] {
            let server = ServerInfo::parse(&info(good, "noeviction", "master")).expect(good);
            assert_eq!(server.run_id, "abc");
            assert_eq!(server.has_functions, good != "6.2.0");
        }
        for bad in ["6.0.16", "5.0.7", ""] {
            let error = ServerInfo::parse(&info(bad, "noeviction", "master")).err().expect(bad);
            assert!(error.is_refused() && error.to_string().contains("6.2"), "{error}");
        }
        let error = ServerInfo::parse(&info("7.0.0", "allkeys-lru", "master"))
            .err()
            .expect("policy");
        assert!(error.to_string().contains("noeviction"), "{error}");
        let error = ServerInfo::parse(&info("7.0.0", "noeviction", "slave"))
            .err()
            .expect("role");
        assert!(error.is_passing(), "{error}");
    }
}
