//! Judges a name: what may its value be?
//!
//! An allow-list of the keys whose values a message may quote. A list of the names of secrets would miss the
//! next header, the next misspelt key and the key of another program: the value of an unknown name is hidden.

/// What the value of a name may be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NameKind {
    /// Nothing secret: the value is judged by its form.
    Plain,
    /// A table of known keys, or the topmost one.
    Table,
    /// A table whose names the user chose: `apis`.
    Entries,
    /// A table of rules: `policy`.
    Rules,
    /// One typing error away from a plain name: a short quantity is no secret.
    Misspelt,
    /// The name of a variable: `api_key_env`.
    Variable,
    /// The path of a file: `api_key_file`.
    File,
    /// The place of a key in a request: `key`.
    Placement,
    /// Unknown, so perhaps a secret. Every header is.
    Secret,
}

impl NameKind {
    /// Judges one name, without its quotes.
    pub(crate) fn of(name: &str) -> Self {
        let name = name.to_lowercase().replace('-', "_");
        let is_in = |names: &[&str]| names.binary_search(&name.as_str()).is_ok();
        match name.as_str() {
            "key" => Self::Placement,
            "policy" => Self::Rules,
            "apis" | "groups" | "tenants" => Self::Entries,
            "api_key_env" | "key_env" | "secret_env" | "token_env" | "url_env" => Self::Variable,
            "api_key_file" | "ca_file" | "secret_file" | "token_file" | "url_file" => Self::File,
            _ if is_in(&TABLES) => Self::Table,
            _ if is_in(PLAIN) => Self::Plain,
            _ if is_near_plain(&name) => Self::Misspelt,
            _ => Self::Secret,
        }
    }

    /// Judges a name inside of a value that another name has.
    pub(crate) fn within(self, name: &str) -> Self {
        match self {
            Self::Plain | Self::Table => Self::of(name),
            Self::Entries => Self::Table,
            Self::Rules => Self::Plain,
            // The parts of a placement are names of headers and parameters.
            Self::Placement if PLACES.contains(&name) => Self::Plain,
            _ => Self::Secret,
        }
    }
}

/// Returns true for a misspelt name: `timeuot`, `max_conections`. A short name is near to any word.
fn is_near_plain(name: &str) -> bool {
    let is_near = |known: &&str| {
        let (first, last) = (known.as_bytes().first(), known.as_bytes().last());
        let (own_first, own_last) = (name.as_bytes().first(), name.as_bytes().last());
        // The distance is slow, and a file may have a hundred thousand names.
        known.len() >= MIN_NEAR
            && name.len().abs_diff(known.len()) <= 1
            && (first == own_first || last == own_last)
            && strsim::osa_distance(name, known) <= 1
    };
    PLAIN.iter().any(is_near)
}

/// The letters of a name that may be misspelt.
const MIN_NEAR: usize = 5;

/// Tables of known keys, sorted. `api` is that of a preset.
const TABLES: [&str; 15] = [
    "admin",
    "api",
    "backoff",
    "budget",
    "bulk",
    "congestion",
    "health",
    "log",
    "metrics",
    "redis",
    "retention",
    "server",
    "shared",
    "tenant",
    "webhook",
];

/// Keys below `key`.
const PLACES: [&str; 3] = ["header", "query", "jwt"];

/// Keys of all tables that never hold a secret, sorted. A test reads them from the file that documents all keys.
#[rustfmt::skip]
const PLAIN: &[&str] = &[
    "accounting", "action_timeout", "adaptive", "addresses", "aliases", "as_of", "auto_recover", "base",
    "base_backoff", "base_url", "body_timeout", "bucket_cap", "bucket_capacity", "burst", "cache", "cache_only_after",
    "cap", "cleanup_interval", "concurrency", "confirm_after", "connect_timeout", "cooldown", "cooldown_factor",
    "cost", "counts", "counts_as", "dead", "depth", "dialects", "dir", "enabled", "escalation", "file", "force",
    "format", "global_rate", "grace", "group", "guard", "header_timeout", "health_scope", "heartbeat", "horizon",
    "idle_timeout", "in_flight", "interval", "jitter", "kind", "lease", "level", "limits", "limits_account", "listen", "max",
    "max_backoff", "max_body", "max_connections", "max_connections_per_client", "max_delay", "max_files",
    "max_header_size", "max_headers", "max_log_entries", "max_memory", "max_retry_after", "max_size", "max_wait",
    "memory_threshold_mb", "methods", "min", "min_failures", "min_samples", "n_cacheonly", "n_failures", "n_throttle",
    "name", "names", "ndjson", "neutral_per_success", "obey_retry_after", "p_recover", "p_sleep", "p_sleep_held",
    "p_throttle", "pacing", "path", "per_second", "preset", "priority", "probe_concurrency", "probe_from",
    "probe_patience", "probe_rate", "probe_start", "probe_success", "probe_timeout", "profile", "proxy", "queue",
    "queue_max", "ramp_after", "ramp_every", "ramp_factor", "rate", "rate_base", "rate_limit_mode",
    "rate_limit_per_sec", "rate_share", "read_timeout", "ready_queue_max", "recoveries", "redirects",
    "release_jitter", "results", "retry", "retry_429", "retry_count", "routes", "s_recover", "scheduler", "scope",
    "share", "short_retry_after", "size", "sleep_jitter", "sleep_max", "sleep_min", "sleep_share",
    "snapshot_interval", "source", "stale_if_error", "stale_offline", "stats_retention", "store", "throttle_exit",
    "throttle_floor", "throttle_share", "timeout", "trust", "ttl", "underscore_headers", "usage_alert",
    "wait_replicas", "warn_below", "weight", "when_asleep", "window", "window_length", "workers",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_name_may_be_a_secrets() {
        for name in [
            "api_key",
            "api_kye",
            "API-KEY",
            "auth",
            "tokne",
            "Authorization",
            "headers",
            "header",
            "X-Foo",
            "value",
            "pin",
            "account",
            "client_id",
            "url",
            "",
        ] {
            assert_eq!(NameKind::of(name), NameKind::Secret, "{name}");
        }
        for name in [
            "timeout",
            "path",
            "level",
            "counts",
            "auto_recover",
            "dir",
            "Max-Wait",
            "underscore_headers",
        ] {
            assert_eq!(NameKind::of(name), NameKind::Plain, "{name}");
        }
        for name in ["timeuot", "timeoutt", "limit", "max_conections"] {
            assert_eq!(NameKind::of(name), NameKind::Misspelt, "{name}");
        }
    }

    #[test]
    fn a_part_of_a_secret_is_secret_under_any_name() {
        let of = |names: &[&str]| names.iter().fold(NameKind::Table, |kind, name| kind.within(name));
        for names in [
            &["headers", "timeout"][..],
            &["timeuot", "path"],
            &["api_key_file", "path"],
            &["key", "value"],
            &["apis", "stock", "header", "path"],
            &["stock", "timeout"],
        ] {
            assert_eq!(of(names), NameKind::Secret, "{names:?}");
        }
        for names in [
            &["key", "header"][..],
            &["apis", "pin", "timeout"],
            &["apis", "stock", "groups", "headers", "limits", "rate"],
            &["policy", "403 limited", "retry"],
        ] {
            assert_eq!(of(names), NameKind::Plain, "{names:?}");
        }
    }

    #[test]
    fn the_lists_are_sorted() {
        assert!(TABLES.is_sorted() && PLAIN.is_sorted());
    }
}
