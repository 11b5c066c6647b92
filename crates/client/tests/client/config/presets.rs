//! Effect of each preset on sample requests: the limits in effect and the group of each call.
//!
//! The samples are in `config/presets/*.txt`, requests above and expectations below, so that a change of
//! a preset is visible as a change of behaviour.

use std::fmt::Write as _;
use std::path::PathBuf;

use http::Method;
use outflow::config::{Config, Environment, Source};
use outflow::core::{AttemptReport, Cost, CountBy, Dialect, Limit, LimitKind, OutcomeClass};
use outflow::{Api, Group, Preset};
use smol_str::SmolStr;

fn api(preset: &str) -> Api {
    let base = match preset {
        "shopify" => "base_url = \"https://shop.myshopify.com/admin/api/2025-10\"\n",
        _ => "",
    };
    let text = format!("[apis.it]\npreset = \"{preset}\"\n{base}");
    let config = Config::read(&[Source::new("it", text)], &Environment::empty());
    let config = config.expect("a preset has no error");
    assert!(config.warnings.is_empty(), "{}", config.warnings);
    config.apis.into_iter().next().expect("one API")
}

fn limits(limits: &[Limit]) -> String {
    let shown = limits.iter().map(|limit| match limit.kind() {
        LimitKind::Sliding if limit.measure() != CountBy::Cost => {
            format!("{} of {:?}", limit.rate(), limit.measure())
        }
        LimitKind::Sliding => limit.rate().to_string(),
        LimitKind::Bucket { burst } => format!("{} bucket of {burst}", limit.rate()),
        other => format!("{} {other:?}", limit.rate()),
    });
    let shown: Vec<_> = shown.collect();
    match shown.as_slice() {
        [] => "none".to_owned(),
        all => all.join(", "),
    }
}

fn group(group: &Group) -> String {
    let names = std::iter::once(&group.name).chain(&group.aliases);
    let names: Vec<_> = names.map(SmolStr::as_str).collect();
    let cost = group.cost.units();
    format!("{}: {}, cost {cost}", names.join(" = "), limits(&group.limits))
}

/// Returns the group and cost of a request, as an upstream finds them.
fn routed(api: &Api, request: &str) -> String {
    let (method, path) = request.split_once(' ').expect("a method and a path");
    let method: Method = method.parse().expect("a method");
    let route = api
        .rules
        .routes
        .iter()
        .find(|route| (route.methods.is_empty() || route.methods.contains(&method)) && route.pattern.matches(path));
    let name = route.map_or("default", |route| route.group.as_str());
    let group = api.rules.groups.iter().find(|group| group.name == name);
    let usual = group.map_or(1, |group| group.cost.units());
    let cost = route.and_then(|route| route.cost).map_or(usual, Cost::units);
    format!("{request} is {name}, cost {cost}")
}

fn shown(preset: &str, requests: &str) -> String {
    let api = api(preset);
    let mut text = String::new();
    let _ = writeln!(text, "at {}", api.base_url);
    let _ = writeln!(text, "every call: {}", limits(&api.rules.limits));
    for one in &api.rules.groups {
        let _ = writeln!(text, "{}", group(one));
    }
    let _ = writeln!(text, "health of each {:?}", api.rules.health_scope);
    for request in requests.lines() {
        let _ = writeln!(text, "{}", routed(&api, request));
    }
    text
}

fn file(preset: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/client/config/presets");
    folder.join(format!("{preset}.txt"))
}

// With `EXPECT=write` the test writes the files.
#[test]
fn each_preset_has_the_published_limits() {
    for preset in Preset::ALL {
        let name = preset.name();
        let text = std::fs::read_to_string(file(name)).expect(name);
        let (requests, expected) = text.split_once("---\n").expect("an expectation");
        let shown = shown(name, requests);
        if std::env::var_os("EXPECT").is_some() {
            std::fs::write(file(name), format!("{requests}---\n{shown}")).expect("writable");
        }
        assert_eq!(shown, expected, "{name}");
    }
}

// A preset without a source cannot be verified.
#[test]
fn each_preset_carries_its_source_and_date() {
    for preset in Preset::ALL {
        let text = preset.text();
        let line = |key: &str| {
            let start = format!("{key} = \"");
            let line = text.lines().find_map(|line| line.strip_prefix(start.as_str()));
            line.expect(key).trim_end_matches('"').to_owned()
        };
        assert!(line("source").starts_with("https://"), "{preset:?}");
        let date = line("as_of");
        let parts: Vec<_> = date.split('-').map(str::len).collect();
        assert_eq!(parts, [4, 2, 2], "{preset:?}: {date}");
        assert!(text.starts_with("# ") && text.contains("\n# Source: "), "{preset:?}");
    }
}

#[test]
fn upbit_bans_with_418_and_reads_its_own_header() {
    let rules = api("upbit").rules;
    assert!(rules.dialects.contains(Dialect::Upbit));
    assert!(!rules.dialects.contains(Dialect::XRateLimit));
    let banned = rules.policy.classify(&AttemptReport::status(418));
    assert_eq!(banned.outcome.effect(), OutcomeClass::Banned);
}

// GitHub asks for a minute if it names no other time.
#[test]
fn github_waits_a_minute_after_a_secondary_limit() {
    let rules = api("github").rules;
    let banned = rules.policy.classify(&AttemptReport::status(429));
    assert_eq!(banned.outcome.effect(), OutcomeClass::Banned);
    assert_eq!(rules.health.settings().sleep_min.as_secs(), 60);
}

#[test]
fn a_users_key_replaces_a_presets_key_and_lists_are_replaced() {
    let text = r#"
        [apis.it]
        preset = "upbit"
        timeout = "4s"
        routes = [{ path = "/v1/orders", group = "order" }]
        [apis.it.groups.order]
        rate_limit_per_sec = 3
    "#;
    let config = Config::read(&[Source::new("it", text)], &Environment::empty());
    let api = &config.expect("valid").apis[0];
    assert_eq!(api.rules.routes.len(), 1);
    assert_eq!(api.rules.timeout.as_secs(), 4);
    let order = api.rules.groups.iter().find(|group| group.name == "order");
    let order = order.expect("still there");
    assert_eq!(limits(&order.limits), "3/s", "the preset's 12/s is gone");
    assert_eq!(
        order.aliases,
        ["REST_PRIVATE_ORDER"],
        "a key that the user does not set stays"
    );
    assert_eq!(api.rules.groups.len(), 10);
}

#[test]
fn a_key_is_sent_in_one_place_with_any_preset() {
    let text = r#"
        [apis.it]
        preset = "binance"
        api_key_env = "KEY"
        key = { query = "key" }
    "#;
    let environment = Environment::from_iter([("KEY", "secret")]);
    let config = Config::read(&[Source::new("it", text)], &environment).expect("valid");
    let credential = config.apis[0].credential.as_ref().expect("a key");
    assert_eq!(credential.place, outflow::CredentialPlacement::Query("key".into()));
}
