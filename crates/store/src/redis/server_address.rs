//! The address of a server: one host or several, or the Sentinels that know it.

use redis::{ConnectionInfo, IntoConnectionInfo};

use super::tls;
use crate::contract::StoreResult;
use crate::error::StoreError;

/// Hosts of an address, with the same user, password and database.
pub(super) struct ServerAddress {
    pub(super) hosts: Vec<ConnectionInfo>,
    /// Name of the primary, if the hosts are Sentinels.
    pub(super) sentinel: Option<String>,
}

impl ServerAddress {
    /// Reads an address. The library's error about a bad one may repeat the password, so it is replaced.
    ///
    /// # Errors
    /// If a host cannot be read.
    pub(super) fn parse(url: &str) -> StoreResult<Self> {
        let invalid = || StoreError::refused(tls::UNREADABLE);
        let (scheme, rest) = url.split_once("://").ok_or_else(invalid)?;
        if scheme.contains("unix") {
            let host = url.into_connection_info().map_err(|_| invalid())?;
            return Ok(Self {
                hosts: vec![host],
                sentinel: None,
            });
        }
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, rest) = rest.split_at_checked(end).ok_or_else(invalid)?;
        let (user, hosts) = authority
            .rfind('@')
            .map_or(("", authority), |at| authority.split_at(at + 1));
        let (rest, sentinel) = take_sentinel(rest);
        if sentinel.as_ref().is_some_and(String::is_empty) {
            return Err(StoreError::refused(NO_NAME));
        }
        let hosts = hosts.split(',').map(|host| {
            let port = match &sentinel {
                Some(_) if !has_port(host) => SENTINEL_PORT,
                _ => "",
            };
            let url = [scheme, "://", user, host.trim(), port, &rest].concat();
            let is_named = !host.trim().is_empty();
            is_named
                .then(|| url.into_connection_info().ok())
                .flatten()
                .ok_or_else(invalid)
        });
        Ok(Self {
            hosts: hosts.collect::<StoreResult<_>>()?,
            sentinel,
        })
    }
}

/// Takes the name of the primary out of the query.
fn take_sentinel(rest: &str) -> (String, Option<String>) {
    let (rest, fragment) = rest.split_at(rest.find('#').unwrap_or(rest.len()));
    let Some((path, query)) = rest.split_once('?') else {
        return ([rest, fragment].concat(), None);
    };
    let (named, others): (Vec<_>, Vec<_>) = query.split('&').partition(|pair| pair.starts_with(SENTINEL));
    let name = named.first().and_then(|pair| pair.strip_prefix(SENTINEL));
    let query = others.join("&");
    let mark = if query.is_empty() { "" } else { "?" };
    ([path, mark, &query, fragment].concat(), name.map(str::to_owned))
}

/// Returns true if a host has a port; an IPv6 address is in brackets.
fn has_port(host: &str) -> bool {
    host.rsplit_once(':').is_some_and(|(_, port)| !port.contains(']'))
}

const SENTINEL: &str = "sentinel=";
const SENTINEL_PORT: &str = ":26379";

const NO_NAME: &str = "the address of Redis names no primary: write its name after `sentinel=`";

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(url: &str) -> (Vec<String>, Option<String>) {
        let address = ServerAddress::parse(url).expect(url);
        let names = address.hosts.iter().map(|host| host.addr().to_string());
        (names.collect(), address.sentinel)
    }

    #[test]
    fn several_hosts_share_user_and_database() {
        let url = "redis://u:p@h1:1,h2,[::1]:3/4";
        assert_eq!(hosts(url).0, ["h1:1", "h2:6379", "::1:3"]);
        let address = ServerAddress::parse(url).expect("valid");
        for host in address.hosts {
            let settings = host.redis_settings();
            let seen = (settings.username(), settings.password(), settings.db());
            assert_eq!(seen, (Some("u"), Some("p"), 4));
        }
        assert_eq!(hosts("redis://h1").0, ["h1:6379"]);
    }

    #[test]
    fn sentinels_have_their_own_port_and_the_name_of_the_primary() {
        let (names, primary) = hosts("redis://s1,s2:5/0?protocol=resp3&sentinel=mymaster");
        assert_eq!(names, ["s1:26379", "s2:5"]);
        assert_eq!(primary.as_deref(), Some("mymaster"));
        assert_eq!(hosts("redis://s1?sentinel=a").1.as_deref(), Some("a"));
    }

    #[test]
    fn an_invalid_address_is_refused_without_its_password() {
        for url in [
            "",
            "h:1",
            "redis://:hunter2@h1,,h2/",
            "redis://:hunter2@h:x/",
            "redis://:hunter2@h/?sentinel=",
        ] {
            let error = ServerAddress::parse(url).err().expect(url);
            assert!(error.is_refused() && !error.to_string().contains("hunter2"), "{error}");
        }
    }
}
