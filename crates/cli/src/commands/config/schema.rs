//! The configuration as a JSON Schema (2020-12), for editors that check and complete TOML.
//!
//! Types are listed here, once for each key; what a key means is taken from the file that documents it.
//! The schema is looser than the program: it knows forms and not contradictions, which `check` finds.

use serde_json::{Map, Value, json};

use super::default_file::{self, EXAMPLE};

/// The whole schema.
pub(super) fn document() -> Value {
    let sections = ["server", "admin", "log", "metrics", "cache"];
    let mut root: Map<_, _> = sections
        .map(|name| (name.to_owned(), object(keys(&format!("{name}.")))))
        .into_iter()
        .collect();
    root.insert("bulk".to_owned(), bulk());
    root.insert("apis".to_owned(), named(api()));
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
    bulk.insert("tenants".to_owned(), named(part("tenants.acme")));
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
    api.insert("groups".to_owned(), named(object(part("groups.orders"))));
    // Statuses, ranges and faults: more names than an editor can list.
    api.insert("policy".to_owned(), json!({ "type": "object" }));
    object(api)
}

/// The keys right under a prefix.
fn keys(prefix: &str) -> Map<String, Value> {
    let mut keys = Map::new();
    for one in default_file::explained() {
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

/// A table whose names are the user's.
fn named(each: Value) -> Value {
    json!({ "type": "object", "additionalProperties": each })
}

fn object(keys: Map<String, Value>) -> Value {
    json!({ "type": "object", "properties": keys, "additionalProperties": false })
}

/// What a value may look like.
#[derive(Clone, Copy)]
enum ValueForm {
    /// A text of any kind: a time, a size, an address, a path.
    Text,
    /// A whole number.
    Whole,
    /// Yes or no.
    Truth,
    /// A number, or a text such as a share or a rate.
    Number,
    /// One of these words.
    Word(&'static [&'static str]),
    /// One of these words, or a table that says more.
    WordOrTable(&'static [&'static str]),
    /// One of these words, or a text.
    Other,
    /// A list of texts, or one of them.
    Texts,
    /// A list of texts or tables, or one of them.
    Entries,
}

impl ValueForm {
    fn schema(self) -> Value {
        match self {
            Self::Text => json!({ "type": "string" }),
            Self::Truth => json!({ "type": "boolean" }),
            Self::Whole => json!({ "type": "integer", "minimum": 0 }),
            Self::Number => json!({ "type": ["number", "string"] }),
            Self::Word(words) => json!({ "enum": words }),
            Self::WordOrTable(words) => {
                json!({ "anyOf": [{ "enum": words }, { "type": ["object", "string"] }] })
            }
            Self::Other => json!({ "type": ["string", "integer", "object"] }),
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

/// The form of a key. Whatever is not listed is a text: most of them are times.
fn form(prefix: &str, name: &str) -> ValueForm {
    let section = prefix.strip_prefix(EXAMPLE).unwrap_or(prefix);
    let listed = |(where_, key, _): &&(&str, &str, ValueForm)| *where_ == section && *key == name;
    let known = FORMS.iter().find(listed);
    known.map_or(ValueForm::Text, |(_, _, form)| *form)
}

/// Where a key is, its name, and its form; the API's own keys are under "".
const FORMS: &[(&str, &str, ValueForm)] = &[
    ("server.", "workers", ValueForm::Whole),
    ("server.", "max_connections", ValueForm::Whole),
    ("server.", "max_connections_per_client", ValueForm::Whole),
    ("server.", "max_headers", ValueForm::Whole),
    ("log.", "format", ValueForm::Word(&["logfmt", "json"])),
    (
        "log.",
        "level",
        ValueForm::Word(&["off", "error", "warn", "info", "debug", "trace"]),
    ),
    ("log.", "max_files", ValueForm::Whole),
    (
        "metrics.",
        "ndjson",
        ValueForm::WordOrTable(&["off", "stdout"]),
    ),
    (
        "bulk.",
        "scheduler",
        ValueForm::Word(&["permit", "backoff", "fixed"]),
    ),
    ("bulk.", "store", ValueForm::Word(&["embedded", "redis"])),
    ("bulk.", "recoveries", ValueForm::Whole),
    ("bulk.", "ready_queue_max", ValueForm::Whole),
    ("bulk.", "queue_max", ValueForm::Whole),
    ("bulk.", "global_rate", ValueForm::Whole),
    ("bulk.redis.", "wait_replicas", ValueForm::Whole),
    ("bulk.workers.", "min", ValueForm::Whole),
    ("bulk.workers.", "max", ValueForm::Whole),
    ("bulk.workers.", "depth", ValueForm::Whole),
    ("bulk.congestion.", "enabled", ValueForm::Truth),
    ("bulk.tenant.", "weight", ValueForm::Whole),
    (
        "bulk.tenant.",
        "priority",
        ValueForm::Word(&["low", "normal", "high"]),
    ),
    ("bulk.tenant.", "in_flight", ValueForm::Other),
    ("bulk.tenants.acme.", "weight", ValueForm::Whole),
    (
        "bulk.tenants.acme.",
        "priority",
        ValueForm::Word(&["low", "normal", "high"]),
    ),
    ("bulk.tenants.acme.", "in_flight", ValueForm::Other),
    ("", "key", ValueForm::WordOrTable(&["bearer"])),
    ("", "limits", ValueForm::Entries),
    ("", "rate_limit_per_sec", ValueForm::Number),
    ("", "rate_base", ValueForm::Number),
    ("", "bucket_capacity", ValueForm::Whole),
    ("", "max_log_entries", ValueForm::Whole),
    ("", "rate_limit_mode", ValueForm::Word(&["wait", "reject"])),
    ("", "queue", ValueForm::Whole),
    ("", "concurrency", ValueForm::Whole),
    ("", "adaptive", ValueForm::Word(&["off", "guard", "learn"])),
    ("", "dialects", ValueForm::Texts),
    ("", "retry_count", ValueForm::Whole),
    ("", "cache", ValueForm::WordOrTable(&["off", "standard"])),
    ("", "methods", ValueForm::Texts),
    ("", "trust", ValueForm::WordOrTable(&["system", "anybody"])),
    ("", "addresses", ValueForm::Word(&["public", "any"])),
    ("", "redirects", ValueForm::Whole),
    ("", "usage_alert", ValueForm::Number),
    ("", "memory_threshold_mb", ValueForm::Number),
    ("", "routes", ValueForm::Entries),
    ("groups.orders.", "limits", ValueForm::Entries),
    ("groups.orders.", "aliases", ValueForm::Texts),
    ("groups.orders.", "cost", ValueForm::Whole),
    ("retry.budget.", "share", ValueForm::Number),
    ("retry.budget.", "per_second", ValueForm::Whole),
    (
        "health.",
        "profile",
        ValueForm::Word(&["adaptive", "breaker"]),
    ),
    ("health.", "scope", ValueForm::Word(&["api", "group"])),
    (
        "health.",
        "when_asleep",
        ValueForm::Word(&["refuse", "wait"]),
    ),
    ("health.", "window_length", ValueForm::Whole),
    ("health.", "min_samples", ValueForm::Whole),
    ("health.", "p_throttle", ValueForm::Number),
    ("health.", "n_throttle", ValueForm::Whole),
    (
        "health.",
        "streak",
        ValueForm::Word(&["throttled", "failures"]),
    ),
    (
        "health.",
        "escalation",
        ValueForm::Word(&["throttle", "sleep"]),
    ),
    ("health.", "throttle_share", ValueForm::Number),
    ("health.", "s_recover", ValueForm::Whole),
    ("health.", "p_recover", ValueForm::Number),
    ("health.", "n_cacheonly", ValueForm::Whole),
    ("health.", "p_sleep", ValueForm::Number),
    ("health.", "sleep_jitter", ValueForm::Number),
    ("health.", "cooldown_factor", ValueForm::Number),
    ("health.", "probe_success", ValueForm::Whole),
    ("health.", "neutral_per_success", ValueForm::Whole),
    ("health.", "probe_concurrency", ValueForm::Whole),
    ("health.", "ramp_factor", ValueForm::Number),
    ("health.", "cache_only_after", ValueForm::Other),
];
