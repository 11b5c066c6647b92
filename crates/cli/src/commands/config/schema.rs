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
enum Form {
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

impl Form {
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
fn form(prefix: &str, name: &str) -> Form {
    let section = prefix.strip_prefix(EXAMPLE).unwrap_or(prefix);
    let listed = |(where_, key, _): &&(&str, &str, Form)| *where_ == section && *key == name;
    let known = FORMS.iter().find(listed);
    known.map_or(Form::Text, |(_, _, form)| *form)
}

/// Where a key is, its name, and its form; the API's own keys are under "".
const FORMS: &[(&str, &str, Form)] = &[
    ("server.", "workers", Form::Whole),
    ("server.", "max_connections", Form::Whole),
    ("server.", "max_connections_per_client", Form::Whole),
    ("server.", "max_headers", Form::Whole),
    ("log.", "format", Form::Word(&["logfmt", "json"])),
    (
        "log.",
        "level",
        Form::Word(&["off", "error", "warn", "info", "debug", "trace"]),
    ),
    ("log.", "max_files", Form::Whole),
    ("metrics.", "ndjson", Form::WordOrTable(&["off", "stdout"])),
    (
        "bulk.",
        "scheduler",
        Form::Word(&["permit", "backoff", "fixed"]),
    ),
    ("bulk.", "store", Form::Word(&["embedded", "redis"])),
    ("bulk.", "recoveries", Form::Whole),
    ("bulk.", "ready_queue_max", Form::Whole),
    ("bulk.", "queue_max", Form::Whole),
    ("bulk.", "global_rate", Form::Whole),
    ("bulk.redis.", "wait_replicas", Form::Whole),
    ("bulk.workers.", "min", Form::Whole),
    ("bulk.workers.", "max", Form::Whole),
    ("bulk.workers.", "depth", Form::Whole),
    ("bulk.congestion.", "enabled", Form::Truth),
    ("bulk.tenant.", "weight", Form::Whole),
    (
        "bulk.tenant.",
        "priority",
        Form::Word(&["low", "normal", "high"]),
    ),
    ("bulk.tenant.", "in_flight", Form::Other),
    ("bulk.tenants.acme.", "weight", Form::Whole),
    (
        "bulk.tenants.acme.",
        "priority",
        Form::Word(&["low", "normal", "high"]),
    ),
    ("bulk.tenants.acme.", "in_flight", Form::Other),
    ("", "key", Form::WordOrTable(&["bearer"])),
    ("", "limits", Form::Entries),
    ("", "rate_limit_per_sec", Form::Number),
    ("", "rate_base", Form::Number),
    ("", "bucket_capacity", Form::Whole),
    ("", "max_log_entries", Form::Whole),
    ("", "rate_limit_mode", Form::Word(&["wait", "reject"])),
    ("", "queue", Form::Whole),
    ("", "concurrency", Form::Whole),
    ("", "adaptive", Form::Word(&["off", "guard", "learn"])),
    ("", "dialects", Form::Texts),
    ("", "retry_count", Form::Whole),
    ("", "cache", Form::WordOrTable(&["off", "standard"])),
    ("", "methods", Form::Texts),
    ("", "trust", Form::WordOrTable(&["system", "anybody"])),
    ("", "addresses", Form::Word(&["public", "any"])),
    ("", "redirects", Form::Whole),
    ("", "usage_alert", Form::Number),
    ("", "memory_threshold_mb", Form::Number),
    ("", "routes", Form::Entries),
    ("groups.orders.", "limits", Form::Entries),
    ("groups.orders.", "aliases", Form::Texts),
    ("groups.orders.", "cost", Form::Whole),
    ("retry.budget.", "share", Form::Number),
    ("retry.budget.", "per_second", Form::Whole),
    ("health.", "profile", Form::Word(&["adaptive", "breaker"])),
    ("health.", "scope", Form::Word(&["api", "group"])),
    ("health.", "when_asleep", Form::Word(&["refuse", "wait"])),
    ("health.", "window_length", Form::Whole),
    ("health.", "min_samples", Form::Whole),
    ("health.", "p_throttle", Form::Number),
    ("health.", "n_throttle", Form::Whole),
    ("health.", "streak", Form::Word(&["throttled", "failures"])),
    ("health.", "escalation", Form::Word(&["throttle", "sleep"])),
    ("health.", "throttle_share", Form::Number),
    ("health.", "s_recover", Form::Whole),
    ("health.", "p_recover", Form::Number),
    ("health.", "n_cacheonly", Form::Whole),
    ("health.", "p_sleep", Form::Number),
    ("health.", "sleep_jitter", Form::Number),
    ("health.", "cooldown_factor", Form::Number),
    ("health.", "probe_success", Form::Whole),
    ("health.", "neutral_per_success", Form::Whole),
    ("health.", "probe_concurrency", Form::Whole),
    ("health.", "ramp_factor", Form::Number),
    ("health.", "cache_only_after", Form::Other),
];
