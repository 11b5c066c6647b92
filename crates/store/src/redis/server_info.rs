//! Facts about the server, and the check that jobs are safe there.

use crate::contract::StoreResult;
use crate::error::StoreError;

/// Facts from the `INFO` reply.
pub(super) struct ServerInfo {
    /// Identifier that the server chose when it started.
    pub(super) run: String,
    /// Set if the server supports functions.
    pub(super) functions: bool,
    /// Set if the server holds function libraries. They survive a flush of its data.
    pub(super) was_used: bool,
}

impl ServerInfo {
    /// Parses and checks the `INFO` reply.
    pub(super) fn read(info: &str) -> StoreResult<Self> {
        let value = |name: &str| {
            let line = info
                .lines()
                .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            line.unwrap_or_default().trim()
        };
        let version = version(value("redis_version"));
        old_enough(version, value("redis_version"))?;
        let policy = value("maxmemory_policy");
        if policy != "noeviction" {
            return Err(StoreError::refused(format_args!(
                "redis may throw jobs away (maxmemory-policy {policy}): set it to noeviction"
            )));
        }
        if value("role") != "master" {
            return Err(StoreError::unreachable(
                "this redis is a replica: give the address of the primary, or wait for its promotion",
            ));
        }
        Ok(Self {
            run: value("run_id").to_owned(),
            functions: version >= FUNCTIONS,
            was_used: !matches!(value("number_of_libraries"), "" | "0"),
        })
    }
}

/// Parses a version. Valkey reports the version of Redis whose commands it supports.
fn version(text: &str) -> (u32, u32) {
    let mut parts = text.split('.').map(|part| part.parse().unwrap_or(0));
    (parts.next().unwrap_or(0), parts.next().unwrap_or(0))
}

fn old_enough(known: (u32, u32), version: &str) -> StoreResult<()> {
    if known < OLDEST {
        return Err(StoreError::refused(format_args!(
            "redis {version} is too old: use 6.2 or later, or Valkey"
        )));
    }
    Ok(())
}

/// The first version that takes several elements from a list at once.
const OLDEST: (u32, u32) = (6, 2);

/// The first version with functions.
const FUNCTIONS: (u32, u32) = (7, 0);

#[cfg(test)]
mod tests {
    use super::*;

    fn info(version: &str, policy: &str, role: &str) -> String {
        format!(
            "redis_version:{version}\r\nrun_id:abc\r\nmaxmemory_policy:{policy}\r\nrole:{role}\r\n"
        )
    }

    #[test]
    fn a_server_that_is_old_or_throws_keys_away_is_refused() {
        for good in ["6.2.0", "7.0.15", "10.1.0"] {
            let server = ServerInfo::read(&info(good, "noeviction", "master")).expect(good);
            assert_eq!(server.run, "abc");
            assert_eq!(server.functions, good != "6.2.0");
        }
        for bad in ["6.0.16", "5.0.7", ""] {
            let error = ServerInfo::read(&info(bad, "noeviction", "master"))
                .err()
                .expect(bad);
            assert!(
                error.is_refused() && error.to_string().contains("6.2"),
                "{error}"
            );
        }
        let error = ServerInfo::read(&info("7.0.0", "allkeys-lru", "master"))
            .err()
            .expect("policy");
        assert!(error.to_string().contains("noeviction"), "{error}");
        let error = ServerInfo::read(&info("7.0.0", "noeviction", "slave"))
            .err()
            .expect("role");
        assert!(error.is_passing(), "{error}");
    }
}
