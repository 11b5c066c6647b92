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
    root.insert("shared".to_owned(), shared());
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

fn shared() -> Value {
    let mut shared = keys("shared.");
    shared.insert("redis".to_owned(), object(keys("shared.redis.")));
    object(shared)
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
    /// A table of texts under names of the user.
    TextTable,
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
            Self::TextTable => json!({ "type": "object", "additionalProperties": { "type": "string" } }),
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
    let key = format!("{}{name}", prefix.strip_prefix(EXAMPLE).unwrap_or(prefix));
    let lists = |(_, keys): &&(ValueForm, &str)| keys.split(' ').any(|listed| listed == key);
    let known = FORMS.iter().find(lists);
    known.map_or(ValueForm::Text, |(form, _)| *form)
}

/// Types with their keys, separated by spaces; the keys of an API have no section.
const FORMS: &[(ValueForm, &str)] = &[
    (
        ValueForm::Integer,
        "server.workers server.max_connections server.max_connections_per_client server.max_headers \
         log.max_files bulk.recoveries bulk.ready_queue_max bulk.queue_max bulk.global_rate \
         bulk.redis.wait_replicas bulk.workers.depth bulk.tenant.weight \
         bulk.tenants.acme.weight bucket_capacity max_log_entries queue retry_count redirects \
         groups.orders.cost retry.budget.per_second health.window_length health.min_samples \
         health.min_failures health.s_recover health.probe_success health.probe_start \
         health.neutral_per_success health.probe_concurrency",
    ),
    (ValueForm::Word(&["pass", "reject"]), "server.underscore_headers"),
    (ValueForm::Word(&["logfmt", "json"]), "log.format"),
    (
        ValueForm::Word(&["off", "error", "warn", "info", "debug", "trace"]),
        "log.level",
    ),
    (ValueForm::WordOrTable(&["off", "stdout"]), "metrics.ndjson"),
    (ValueForm::Word(&["permit", "backoff", "fixed"]), "bulk.scheduler"),
    (ValueForm::Word(&["embedded", "redis"]), "bulk.store"),
    (ValueForm::Word(&["auto", "host", "redis", "off"]), "shared.limits"),
    (ValueForm::Boolean, "bulk.congestion.enabled"),
    (
        ValueForm::Word(&["low", "normal", "high"]),
        "bulk.tenant.priority bulk.tenants.acme.priority",
    ),
    (
        ValueForm::Mixed,
        "bulk.workers.min bulk.workers.max bulk.tenant.in_flight bulk.tenants.acme.in_flight concurrency \
         health.cache_only_after health.n_throttle health.n_failures health.n_cacheonly",
    ),
    (ValueForm::WordOrTable(&["bearer"]), "key"),
    (ValueForm::TextTable, "headers"),
    (ValueForm::Entries, "limits routes groups.orders.limits"),
    (
        ValueForm::Number,
        "rate_limit_per_sec rate_base usage_alert memory_threshold_mb retry.budget.share \
         health.p_throttle health.throttle_share health.p_recover health.p_sleep health.sleep_jitter health.sleep_share \
         health.cooldown_factor health.ramp_factor",
    ),
    (ValueForm::Word(&["wait", "reject"]), "rate_limit_mode"),
    (ValueForm::Word(&["off", "guard", "learn"]), "adaptive"),
    (ValueForm::Texts, "dialects methods groups.orders.aliases"),
    (ValueForm::WordOrTable(&["off", "standard"]), "cache"),
    (ValueForm::WordOrTable(&["system", "anybody"]), "trust"),
    (ValueForm::Word(&["public", "any"]), "addresses"),
    (ValueForm::Word(&["any", "idempotent"]), "retry_429"),
    (ValueForm::Word(&["adaptive", "cautious", "breaker"]), "health.profile"),
    (ValueForm::Word(&["api", "group"]), "health.scope"),
    (ValueForm::Word(&["refuse", "wait"]), "health.when_asleep"),
    (ValueForm::Word(&["normal", "half_open"]), "health.throttle_exit"),
    (ValueForm::Word(&["share", "doubling"]), "health.cooldown"),
    (ValueForm::Word(&["latency", "fixed"]), "health.probe_patience"),
    (ValueForm::Word(&["sending", "failure"]), "health.probe_from"),
    (ValueForm::Word(&["throttles", "always", "never"]), "health.ramp_after"),
    (ValueForm::Word(&["throttle", "sleep"]), "health.escalation"),
];
