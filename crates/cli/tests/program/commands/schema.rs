//! `outflow config schema`, against the file that documents every key.

use serde_json::Value;

use super::support::{configured, run, run_in};

fn schema() -> Value {
    run(&["config", "schema"]).json(0)
}

/// Returns whether a schema accepts a value, for the part of JSON Schema that our schema uses.
fn accepts(schema: &Value, value: &Value) -> bool {
    let is = |kind: &str| match kind {
        "string" => value.is_string(),
        "integer" => value.is_u64(),
        "number" => value.is_number(),
        "array" => value.is_array(),
        "boolean" => value.is_boolean(),
        "object" => value.is_object(),
        other => panic!("a type that the test does not know: {other}"),
    };
    let typed = match &schema["type"] {
        Value::Null => true,
        Value::String(kind) => is(kind),
        Value::Array(kinds) => kinds.iter().any(|kind| is(kind.as_str().expect("a word"))),
        other => panic!("{other}"),
    };
    let listed = schema["enum"].as_array().is_none_or(|words| words.contains(value));
    let any = schema["anyOf"].as_array();
    let any = any.is_none_or(|forms| forms.iter().any(|form| accepts(form, value)));
    let items = match (value.as_array(), schema.get("items")) {
        (Some(items), Some(form)) => items.iter().all(|item| accepts(form, item)),
        _ => true,
    };
    typed && listed && any && items
}

/// Finds the schema of a key by the levels of its name.
fn form<'s>(schema: &'s Value, key: &str) -> Option<&'s Value> {
    key.split('.').try_fold(schema, |form, level| {
        form["properties"].get(level).or_else(|| {
            let others = &form["additionalProperties"];
            others.is_object().then_some(others)
        })
    })
}

/// Parses a TOML value that is JSON too.
fn value(written: &str) -> Value {
    serde_json::from_str(written).unwrap_or_else(|_| panic!("{written} is not JSON"))
}

// `config show` lists every key, set or not; the schema has all of them.
#[test]
fn the_schema_accepts_every_key_and_default() {
    let default = run(&["config", "default"]).out;
    let folder = configured(&default);
    let shown = run_in(folder.path(), &["config", "show", "--json"]).json(0);
    let schema = schema();
    let values = shown["values"].as_array().expect("a list");
    assert!(values.len() > 80, "{}", values.len());
    for one in values {
        let key = one["key"].as_str().expect("a key");
        let form = form(&schema, key).unwrap_or_else(|| panic!("{key} is not in the schema"));
        if let Some(written) = one["value"].as_str() {
            assert!(accepts(form, &value(written)), "{key} = {written} against {form}");
        }
        assert!(form["description"].is_string(), "{key} is not described");
    }
}

// The keys behind `#` have no default, and the schema has them too.
#[test]
fn the_schema_has_every_commented_key() {
    let (default, schema) = (run(&["config", "default"]).out, schema());
    let (mut section, mut count) = (String::new(), 0);
    for line in default.lines() {
        let bare = line.strip_prefix('#').unwrap_or(line);
        if let Some(name) = bare.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            section = name.to_owned();
        }
        let name = bare.split(" = ").next().unwrap_or_default();
        let is_key = bare.contains(" = ") && name.chars().all(|c| c.is_ascii_lowercase() || c == '_');
        if is_key {
            let key = format!("{section}.{name}");
            assert!(form(&schema, &key).is_some(), "{key}");
            count += 1;
        }
    }
    assert!(count > 90, "{count}");
}

#[test]
fn the_schema_rejects_invalid_values() {
    let schema = schema();
    for (key, wrong) in [
        ("apis.a.timeout", "10"),
        ("apis.a.queue", "\"many\""),
        ("apis.a.adaptive", "\"yes\""),
        ("log.level", "\"loud\""),
        ("apis.a.limits", "[5]"),
        ("bulk.congestion.enabled", "\"yes\""),
        ("bulk.tenants.acme.priority", "\"urgent\""),
    ] {
        let form = form(&schema, key).expect("known");
        assert!(!accepts(form, &value(wrong)), "{key} = {wrong}");
    }
    assert!(form(&schema, "apis.a.timeuot").is_none());
    assert!(form(&schema, "sever.listen").is_none());
    assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
}
