//! The configuration as a JSON Schema (2020-12), for editors that check and complete TOML.
//!
//! This module lists the type of each key; descriptions come from the file that documents the keys. The
//! schema is looser than the program: it knows types, and `check` also finds contradictions.

use serde_json::{Map, Value, json};

use super::default_file::{self, EXAMPLE};

/// Returns the schema.
pub(super) fn document() -> Value {
    let sections = ["server", "admin", "log", "metrics", "cache"];
    let mut root: Map<_, _> = sections
        .map(|name| (name.to_owned(), object(keys(&format!("{name}.")))))
        .into_iter()
        .collect();
    root.insert("bulk".to_owned(), bulk());
    root.insert("apis".to_owned(), map_of(api()));
    let mut document = object(root);
    if let Value::Object(head) = &mut document {
        let version = "https://json-schema.org/draft/2020-12/schema";
        head.insert("$schema".to_owned(), Value::from(version));
        head.insert("title".to_owned(), Value::from("Outflow configuration"));
    }
    document
}

fn bulk() -> Value {
    let mut bulk = keys("bulk.");
    let part = |name: &str| object(keys(&format!("bulk.{name}.")));
    for name in [
        "redis",
        "workers",
        "retry",
        "congestion",
        "tenant",
        "retention",
        "shared",
        "webhook",
    ] {
        bulk.insert(name.to_owned(), part(name));
    }
    bulk.insert("tenants".to_owned(), map_of(part("tenants.acme")));
    object(bulk)
}

fn api() -> Value {
    let part = |name: &str| keys(&format!("{EXAMPLE}{name}."));
    let mut api = keys(EXAMPLE);
    let retry = Map::from_iter([
        ("backoff".to_owned(), object(part("retry.backoff"))),
        ("budget".to_owned(), object(part("retry.budget"))),
    ]);
    api.insert("retry".to_owned(), object(retry));
    api.insert("health".to_owned(), object(part("health")));
    api.insert("groups".to_owned(), map_of(object(part("groups.orders"))));
    // Status codes, ranges and fault names: too many to list.
    api.insert("policy".to_owned(), json!({ "type": "object" }));
    object(api)
}

/// Returns the keys directly below a prefix.
fn keys(prefix: &str) -> Map<String, Value> {
    let mut keys = Map::new();
    for one in default_file::explained_keys() {
        let name = one.key.strip_prefix(prefix);
        let Some(name) = name.filter(|name| !name.contains('.')) else {
            continue;
        };
        let mut schema = form(prefix, name).schema();
        if let Value::Object(schema) = &mut schema {
            schema.insert("description".to_owned(), Value::from(one.meaning));
        }
        keys.insert(name.to_owned(), schema);
    }
    keys
}

/// Returns the schema of a table whose keys are user-defined names.
fn map_of(each: Value) -> Value {
    json!({ "type": "object", "additionalProperties": each })
}

fn object(keys: Map<String, Value>) -> Value {
    json!({ "type": "object", "properties": keys, "additionalProperties": false })
}

/// Type of a value.
#[derive(Clone, Copy)]
enum ValueForm {
    /// A text: a time, a size, an address or a path.
    Text,
    /// An integer.
    Integer,
    /// A boolean.
    Boolean,
    /// A number, or a text such as a share or a rate.
    Number,
    /// One of these words.
    Word(&'static [&'static str]),
    /// One of these words, or a table.
    WordOrTable(&'static [&'static str]),
    /// A text, an integer or a table.
    Mixed,
    /// A list of texts, or one of them.
    Texts,
    /// A list of texts or tables, or one of them.
    Entries,
}

impl ValueForm {
    fn schema(self) -> Value {
        match self {
            Self::Text => json!({ "type": "string" }),
            Self::Boolean => json!({ "type": "boolean" }),
            Self::Integer => json!({ "type": "integer", "minimum": 0 }),
            Self::Number => json!({ "type": ["number", "string"] }),
            Self::Word(words) => json!({ "enum": words }),
            Self::WordOrTable(words) => {
                json!({ "anyOf": [{ "enum": words }, { "type": ["object", "string"] }] })
            }
            Self::Mixed => json!({ "type": ["string", "integer", "object"] }),
            Self::Texts => {
                json!({ "type": ["array", "string"], "items": { "type": "string" } })
            }
            Self::Entries => json!({
                "type": ["array", "string", "object"],
                "items": { "type": ["string", "object"] }
            }),
        }
    }
}

/// Returns the type of a key. A key that is not listed is a text: most are times.
fn form(prefix: &str, name: &str) -> ValueForm {
    let section = prefix.strip_prefix(EXAMPLE).unwrap_or(prefix);
    let listed = |(table, key, _): &&(&str, &str, ValueForm)| *table == section && *key == name;
    let known = FORMS.iter().find(listed);
    known.map_or(ValueForm::Text, |(_, _, form)| *form)
}

/// Section, name and type of each key; the keys of an API are under "".
const FORMS: &[(&str, &str, ValueForm)] = &[
    ("server.", "workers", ValueForm::Integer),
    ("server.", "max_connections", ValueForm::Integer),
    ("server.", "max_connections_per_client", ValueForm::Integer),
    ("server.", "max_headers", ValueForm::Integer),
    ("log.", "format", ValueForm::Word(&["logfmt", "json"])),
    (
        "log.",
        "level",
        ValueForm::Word(&["off", "error", "warn", "info", "debug", "trace"]),
    ),
    ("log.", "max_files", ValueForm::Integer),
    ("metrics.", "ndjson", ValueForm::WordOrTable(&["off", "stdout"])),
    ("bulk.", "scheduler", ValueForm::Word(&["permit", "backoff", "fixed"])),
    ("bulk.", "store", ValueForm::Word(&["embedded", "redis"])),
    ("bulk.", "recoveries", ValueForm::Integer),
    ("bulk.", "ready_queue_max", ValueForm::Integer),
    ("bulk.", "queue_max", ValueForm::Integer),
    ("bulk.", "global_rate", ValueForm::Integer),
    ("bulk.redis.", "wait_replicas", ValueForm::Integer),
    ("bulk.workers.", "min", ValueForm::Integer),
    ("bulk.workers.", "max", ValueForm::Integer),
    ("bulk.workers.", "depth", ValueForm::Integer),
    ("bulk.congestion.", "enabled", ValueForm::Boolean),
    ("bulk.tenant.", "weight", ValueForm::Integer),
    ("bulk.tenant.", "priority", ValueForm::Word(&["low", "normal", "high"])),
    ("bulk.tenant.", "in_flight", ValueForm::Mixed),
    ("bulk.tenants.acme.", "weight", ValueForm::Integer),
    (
        "bulk.tenants.acme.",
        "priority",
        ValueForm::Word(&["low", "normal", "high"]),
    ),
    ("bulk.tenants.acme.", "in_flight", ValueForm::Mixed),
    ("", "key", ValueForm::WordOrTable(&["bearer"])),
    ("", "limits", ValueForm::Entries),
    ("", "rate_limit_per_sec", ValueForm::Number),
    ("", "rate_base", ValueForm::Number),
    ("", "bucket_capacity", ValueForm::Integer),
    ("", "max_log_entries", ValueForm::Integer),
    ("", "rate_limit_mode", ValueForm::Word(&["wait", "reject"])),
    ("", "queue", ValueForm::Integer),
    ("", "concurrency", ValueForm::Integer),
    ("", "adaptive", ValueForm::Word(&["off", "guard", "learn"])),
    ("", "dialects", ValueForm::Texts),
    ("", "retry_count", ValueForm::Integer),
    ("", "cache", ValueForm::WordOrTable(&["off", "standard"])),
    ("", "methods", ValueForm::Texts),
    ("", "trust", ValueForm::WordOrTable(&["system", "anybody"])),
    ("", "addresses", ValueForm::Word(&["public", "any"])),
    ("", "redirects", ValueForm::Integer),
    ("", "usage_alert", ValueForm::Number),
    ("", "memory_threshold_mb", ValueForm::Number),
    ("", "routes", ValueForm::Entries),
    ("groups.orders.", "limits", ValueForm::Entries),
    ("groups.orders.", "aliases", ValueForm::Texts),
    ("groups.orders.", "cost", ValueForm::Integer),
    ("retry.budget.", "share", ValueForm::Number),
    ("retry.budget.", "per_second", ValueForm::Integer),
    ("health.", "profile", ValueForm::Word(&["adaptive", "breaker"])),
    ("health.", "scope", ValueForm::Word(&["api", "group"])),
    ("health.", "when_asleep", ValueForm::Word(&["refuse", "wait"])),
    ("health.", "window_length", ValueForm::Integer),
    ("health.", "min_samples", ValueForm::Integer),
    ("health.", "p_throttle", ValueForm::Number),
    ("health.", "n_throttle", ValueForm::Integer),
    ("health.", "streak", ValueForm::Word(&["throttled", "failures"])),
    ("health.", "escalation", ValueForm::Word(&["throttle", "sleep"])),
    ("health.", "throttle_share", ValueForm::Number),
    ("health.", "s_recover", ValueForm::Integer),
    ("health.", "p_recover", ValueForm::Number),
    ("health.", "n_cacheonly", ValueForm::Integer),
    ("health.", "p_sleep", ValueForm::Number),
    ("health.", "sleep_jitter", ValueForm::Number),
    ("health.", "cooldown_factor", ValueForm::Number),
    ("health.", "probe_success", ValueForm::Integer),
    ("health.", "neutral_per_success", ValueForm::Integer),
    ("health.", "probe_concurrency", ValueForm::Integer),
    ("health.", "ramp_factor", ValueForm::Number),
    ("health.", "cache_only_after", ValueForm::Mixed),
];
