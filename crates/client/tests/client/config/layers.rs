//! Order of the layers, and the origin of each value.

use std::time::Duration;

use outflow::HealthScope;
use outflow::config::{Config, Environment, LogLevel, Source};
use outflow::core::{HealthSettings, Share};

use super::support::{STOCK, rates, read, seconds, with};

#[test]
fn later_texts_replace_earlier_ones() {
    let sources = [
        Source::new(
            "base.toml",
            format!("{STOCK}timeout = \"5s\"\nlimits = [\"1/s\", \"2/s\"]"),
        ),
        Source::new("mine.toml", "[apis.stock]\ntimeout = \"6s\"\nrate_limit_per_sec = 3"),
    ];
    let config = Config::read(&sources, &Environment::empty()).expect("valid");
    assert_eq!(config.apis[0].timeouts.attempt, seconds(6));
    assert_eq!(rates(&config.apis[0].rules.limits), ["3/s"]);
    let origin = config.origins.get("apis.stock.timeout").expect("known");
    assert_eq!(origin.to_string(), "mine.toml:2");
}

#[test]
fn a_variable_sets_any_key() {
    let variables = [
        ("OUTFLOW_APIS__STOCK__TIMEOUT", "4s"),
        ("OUTFLOW_APIS__STOCK__LIMITS", "[\"7/s\", \"70/min\"]"),
        ("OUTFLOW_APIS__STOCK__HEALTH__P_THROTTLE", "0.3"),
        ("OUTFLOW_APIS__STOCK__HEALTH_SCOPE", "group"),
        ("OUTFLOW_APIS__STOCK__GROUPS__MY_ORDERS__RATE_LIMIT_PER_SEC", "2"),
        ("OUTFLOW_LOG__LEVEL", "trace"),
        ("PATH", "/bin"),
        ("OUTFLOW_CONFIG", "somewhere.toml"),
    ];
    let text = format!("{STOCK}[apis.stock.groups.My-Orders]\nlimits = [\"9/s\"]");
    let config = read(&text, &variables).expect("valid");
    let api = config.api("stock").expect("there");
    assert_eq!(api.timeouts.attempt, seconds(4));
    assert_eq!(rates(&api.rules.limits), ["7/s", "70/min"]);
    assert_eq!(api.rules.health.settings().p_throttle, Share::percent(30));
    assert_eq!(api.rules.health_scope, HealthScope::Group);
    assert_eq!(api.rules.groups.len(), 1, "spelled as the text spells it");
    assert_eq!(rates(&api.rules.groups[0].limits), ["2/s"]);
    assert_eq!(config.log.level, LogLevel::Trace);
    assert!(config.warnings.is_empty(), "{}", config.warnings);
}

#[test]
fn variables_alone_can_define_an_api() {
    let variables = [
        ("OUTFLOW_APIS__FILMS__PRESET", "tmdb"),
        ("OUTFLOW_APIS__FILMS__API_KEY_ENV", "TMDB_KEY"),
        ("TMDB_KEY", "abc"),
    ];
    let config = read("", &variables).expect("valid");
    assert_eq!(config.apis[0].name, "films");
    assert_eq!(rates(&config.apis[0].rules.limits), ["35/s", "50/s"]);
}

// Names and values of this program's predecessor.
#[test]
fn the_legacy_variables_still_configure_the_tmdb_preset() {
    let older = [
        ("ANIVAULT_RATE_BASE", "30.0"),
        ("ANIVAULT_BUCKET_CAP", "20"),
        ("ANIVAULT_CONCURRENCY", "3"),
        ("ANIVAULT_P_THROTTLE", "0.25"),
        ("ANIVAULT_P_RECOVER", "0.05"),
        ("ANIVAULT_N_THROTTLE", "4"),
        ("ANIVAULT_N_CACHEONLY", "6"),
        ("ANIVAULT_SLEEP_MIN", "3.0"),
        ("ANIVAULT_SLEEP_MAX", "200.5"),
        ("ANIVAULT_PROBE_SUCCESS", "7"),
        ("ANIVAULT_COOLDOWN_FACTOR", "3.0"),
    ];
    let text = format!("[apis.films]\npreset = \"tmdb\"\n{STOCK}");
    let config = read(&text, &older).expect("valid");
    let films = config.api("films").expect("there");
    assert_eq!(rates(&films.rules.limits), ["30/s", "50/s"]);
    assert_eq!(films.rules.limits[0].capacity(), 20);
    let settings = films.rules.health.settings();
    let expected = HealthSettings {
        concurrency: Some(3),
        p_throttle: Share::percent(25),
        p_recover: Share::percent(5),
        n_throttle: Some(4),
        n_cacheonly: Some(6),
        sleep_min: seconds(3),
        sleep_max: Duration::from_millis(200_500),
        probe_success: 7,
        cooldown_factor: outflow::core::RateFactor::percent(300),
        ..HealthSettings::CAUTIOUS
    };
    assert_eq!(*settings, expected);
    let other = config.api("stock").expect("there");
    assert_eq!(
        *other.rules.health.settings(),
        HealthSettings::ADAPTIVE,
        "no other API is meant"
    );
}

#[test]
fn an_operating_variable_sets_the_only_api_and_the_newer_name_wins() {
    let api = with(
        "",
        &[
            ("OUTFLOW_RATE_BASE", "12"),
            ("OUTFLOW_SLEEP_MIN", "4s"),
            ("OUTFLOW_RAMP_EVERY", "60"),
        ],
    );
    assert_eq!(rates(&api.rules.limits), ["12/s"]);
    assert_eq!(api.rules.health.settings().sleep_min, seconds(4));
    assert_eq!(api.rules.health.settings().ramp_every, seconds(60));
    let variables = [
        ("ANIVAULT_RATE_BASE", "30"),
        ("OUTFLOW_RATE_BASE", "20"),
        ("ANIVAULT_CONCURRENCY", "3"),
        ("OUTFLOW_CONCURRENCY", "5"),
        ("OUTFLOW_APIS__FILMS__CONCURRENCY", "6"),
    ];
    let config = read("[apis.films]\npreset = \"tmdb\"", &variables).expect("valid");
    assert_eq!(rates(&config.apis[0].rules.limits), ["20/s", "50/s"]);
    assert_eq!(config.apis[0].rules.health.settings().concurrency, Some(6));
}

#[test]
fn every_value_has_an_origin() {
    let text = "[apis.films]\npreset = \"tmdb\"\ntimeout = \"5s\"\n";
    let variables = [("OUTFLOW_APIS__FILMS__MAX_WAIT", "9s"), ("ANIVAULT_SLEEP_MIN", "3")];
    let config = read(text, &variables).expect("valid");
    let origin = |key: &str| config.origins.get(key).map(|origin| origin.to_string());
    let is = |text: &str| Some(text.to_owned());
    assert_eq!(origin("apis.films.timeout"), is("outflow.toml:3"));
    assert_eq!(origin("apis.films.preset"), is("outflow.toml:2"));
    assert_eq!(
        origin("apis.films.max_wait"),
        is("environment OUTFLOW_APIS__FILMS__MAX_WAIT")
    );
    assert_eq!(
        origin("apis.films.health.sleep_min"),
        is("environment ANIVAULT_SLEEP_MIN")
    );
    assert_eq!(origin("apis.films.health.sleep_max"), is("default"));
    assert_eq!(origin("apis.films.stale_if_error"), is("default"));
    assert_eq!(origin("log.level"), is("default"));
    let rate = origin("apis.films.rate_base").expect("known");
    assert!(rate.starts_with("preset tmdb:"), "{rate}");
    assert_eq!(origin("apis.films.nothing"), None);
    assert!(config.origins.iter().count() > 50);
}
