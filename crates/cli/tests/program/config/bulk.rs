//! The section `[bulk]`.

use std::time::Duration;

use outflow::config::Diagnostics;
use outflow::core::Priority;
use outflow_bulk::SchedulerKind;
use outflow_bulk::config::{BulkConfig, BulkStore};
use outflow_cli::ProgramConfig;
use secrecy::ExposeSecret;

use super::support::{STOCK, read};

const URL: &str = "redis://:open-sesame@redis.example:6379/";

fn with(section: &str) -> Result<ProgramConfig, Diagnostics> {
    let variables = [("REDIS_URL", URL), ("SIGN", "open-sesame")];
    read(&format!("{section}\n{STOCK}"), &variables)
}

fn bulk(section: &str) -> BulkConfig {
    with(section).expect("no error").bulk
}

fn message(section: &str) -> String {
    with(section).expect_err("an error").to_string()
}

#[test]
fn bulk_defaults_to_the_embedded_store_and_the_permit_scheduler() {
    let bulk = bulk("");
    assert_eq!(bulk.engine.scheduler, SchedulerKind::Permit);
    assert!(matches!(bulk.store, BulkStore::Embedded));
    assert_eq!((bulk.engine.workers.min, bulk.engine.workers.max), (None, None));
    assert_eq!(format!("{bulk:?}"), format!("{:?}", BulkConfig::default()));
}

#[test]
fn a_variable_replaces_the_files_value_and_is_its_origin() {
    let text = "[bulk]\nlease = \"20s\"\n[bulk.tenants.acme]\nweight = 2\n";
    let variables = [
        ("OUTFLOW_BULK__LEASE", "30s"),
        ("OUTFLOW_BULK__CONGESTION__MAX_BACKOFF", "5m"),
        ("OUTFLOW_BULK__TENANTS__ACME__RATE", "7/s"),
    ];
    let config = read(text, &variables).expect("no error");
    assert_eq!(config.bulk.engine.lease, Duration::from_secs(30));
    assert_eq!(config.bulk.engine.congestion.max(), Duration::from_mins(5));
    let acme = config.bulk.engine.tenants["acme"];
    assert_eq!(acme.rate.map(outflow::core::Rate::quantity), Some(7));
    let origin = |key: &str| config.client.origins.get(key).map(|origin| origin.to_string());
    let lease = origin("bulk.lease");
    assert_eq!(lease.as_deref(), Some("environment OUTFLOW_BULK__LEASE"));
    assert_eq!(origin("bulk.heartbeat").as_deref(), Some("default"));
    let weight = origin("bulk.tenants.acme.weight");
    assert_eq!(weight.as_deref(), Some("outflow.toml:4"));
}

#[test]
fn a_tenant_inherits_the_rule_of_all_tenants() {
    let bulk = bulk(
        "[bulk.tenant]\nweight = 2\nrate = \"9/s\"\nin_flight = 4\n\
         [bulk.tenants.\"urn:one\"]\npriority = \"high\"\nrate = \"none\"\n\
         [bulk.tenants.two]\nin_flight = 1\n",
    );
    let (one, two) = (bulk.engine.tenants["urn:one"], bulk.engine.tenants["two"]);
    assert_eq!((one.weight.as_u32(), one.priority), (2, Priority::High));
    assert_eq!((one.rate, one.in_flight), (None, Some(4)));
    assert_eq!((two.rate, two.in_flight), (bulk.engine.tenant.rate, Some(1)));
}

// The URL of a Redis server usually contains its password.
#[test]
fn redis_urls_come_from_a_variable_or_a_file_and_never_show() {
    let config = with("[bulk]\nstore = \"redis\"\nredis.url_env = \"REDIS_URL\"");
    let config = config.expect("no error");
    assert!(!format!("{config:?}").contains("sesame"));
    let BulkStore::Redis(redis) = config.bulk.store else {
        panic!("{:?}", config.bulk.store);
    };
    assert_eq!(redis.url.expose_secret(), URL);
    assert_eq!((redis.queue.as_str(), redis.wait_replicas), ("outflow", 0));
    assert_eq!(redis.ca_file, None);
    let inline = message(&format!("[bulk]\nstore = \"redis\"\nredis.url = \"{URL}\""));
    assert!(inline.contains("url_env") && !inline.contains("sesame"), "{inline}");
    let misplaced = message(&format!("[bulk]\nstore = \"redis\"\nredis.url_env = \"{URL}\""));
    assert!(!misplaced.contains("sesame"), "{misplaced}");
    let missing = message("[bulk]\nstore = \"redis\"");
    assert!(missing.contains("nothing says where Redis is"), "{missing}");
}

#[test]
fn redis_ca_file_is_a_path() {
    let text = "[bulk]\nstore = \"redis\"\nredis = { url_env = \"REDIS_URL\", ca_file = \"ca.pem\" }";
    let config = with(text).expect("no error");
    let BulkStore::Redis(redis) = config.bulk.store else {
        panic!("{:?}", config.bulk.store);
    };
    assert_eq!(redis.ca_file, Some("ca.pem".into()));
    let wrong = message(&text.replace("\"ca.pem\"", "7"));
    assert!(wrong.contains("ca_file"), "{wrong}");
}

#[test]
fn a_variable_holds_the_secret_that_signs_webhooks() {
    let config = with("[bulk.webhook]\nsecret_env = \"SIGN\"").expect("no error");
    let secret = config.bulk.webhook_secret.clone().expect("read");
    assert_eq!(secret.expose_secret(), "open-sesame");
    assert!(!format!("{config:?}").contains("sesame"));
    let inline = message("[bulk.webhook]\nsecret = \"open-sesame\"");
    assert!(inline.contains("secret_env") && !inline.contains("sesame"), "{inline}");
}

#[test]
fn disabled_congestion_control_selects_the_fixed_scheduler() {
    let off = |scheduler: &str| {
        let config = with(&format!("[bulk]\n{scheduler}\ncongestion.enabled = false"));
        let config = config.expect("no error");
        (config.bulk.engine.scheduler, config.client.warnings.len())
    };
    assert_eq!(off(""), (SchedulerKind::Fixed, 0));
    assert_eq!(off("scheduler = \"fixed\""), (SchedulerKind::Fixed, 0));
    assert_eq!(off("scheduler = \"backoff\""), (SchedulerKind::Fixed, 1));
    assert_eq!(off("scheduler = \"permit\""), (SchedulerKind::Permit, 1));
    let on = bulk("[bulk]\nscheduler = \"backoff\"\ncongestion.enabled = true");
    assert_eq!(on.engine.scheduler, SchedulerKind::Backoff);
}

#[test]
fn the_reader_reports_contradictions_with_all_other_errors() {
    let text = message(
        "[bulk]\nheartbeat = \"10s\"\nworkers = { min = 300, max = 200 }\nscheduller = \"permit\"\n\
         congestion.base_backoff = \"3m\"\nretry.max = \"1s\"\ntenants.a.weight = 0\n",
    );
    for part in [
        "lease would end before its next heartbeat",
        "more than the 200 of `max`",
        "did you mean `scheduler`?",
        "the longest backoff is below the base",
        "the longest wait of a retry is below the first",
        "bulk.tenants.a.weight",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
}

// Values at their bounds: a lease just longer than a heartbeat, equal minimum and maximum.
#[test]
fn the_reader_accepts_values_at_their_bounds() {
    for good in [
        "lease = \"3001ms\"",
        "workers = { min = 5, max = 5 }",
        "workers = { min = 300 }",
        "workers = { min = \"auto\", max = \"auto\" }",
        "congestion = { base_backoff = \"2m\", max_backoff = \"2m\" }",
        "retry = { base = \"30s\" }",
        "grace = \"0s\"",
        "recoveries = 0",
    ] {
        assert!(with(&format!("[bulk]\n{good}")).is_ok(), "{good}");
    }
    for bad in ["lease = \"3s\"", "global_rate = 0", "queue_max = 0", "timeout = \"0s\""] {
        assert!(with(&format!("[bulk]\n{bad}")).is_err(), "{bad}");
    }
}

#[test]
fn the_reader_warns_of_keys_that_the_store_ignores() {
    let warnings = |section: &str| {
        let config = with(section).expect("no error");
        config.client.warnings.to_string()
    };
    let unused = "the chosen store does not use this";
    assert!(warnings("[bulk]\nredis.url_env = \"REDIS_URL\"").contains(unused));
    let server = "[bulk]\nstore = \"redis\"\nredis.url_env = \"REDIS_URL\"\n";
    assert!(warnings(&format!("{server}dir = \"jobs\"")).contains(unused));
    assert!(warnings(server).is_empty());
}
