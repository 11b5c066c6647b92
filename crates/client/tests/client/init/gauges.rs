//! Gauges of the upstreams on the metrics page: the values at the time of the request.

use std::future::Future;
use std::task::{Context, Waker};

use outflow::core::{AdaptiveMode, HealthConfig, HealthOverride, HealthSettings, Limit};
use outflow::{Api, AttemptResult, Group, HealthScope, Outflow, Rules, Target, Upstream};

/// Builds a client for an uncalled API, with adapted rules.
fn adapted_client(adapt: impl FnOnce(&mut Rules)) -> Outflow {
    let mut api = Api::new("strict", "http://localhost:1".parse().expect("a URL"));
    api.rules = Rules::unlimited();
    adapt(&mut api.rules);
    Outflow::init([api]).expect("valid")
}

fn upstream(client: &Outflow) -> Upstream {
    client.upstream("strict").expect("there")
}

fn group(client: &Outflow, name: &str) -> Target {
    upstream(client).group(name).expect("there")
}

/// Returns the current value of a metric of the only API.
fn metric_value(client: &Outflow, metric: &str) -> String {
    let page = client.metrics().expect("metrics").render();
    let name = match metric.strip_suffix('}') {
        Some(labelled) => format!("{labelled}}} "),
        None => format!("{metric}{{api=\"strict\"}} "),
    };
    let line = page.lines().find_map(|line| line.strip_prefix(&name));
    line.expect("on the page").to_owned()
}

fn circuit(client: &Outflow, state: &str) -> String {
    let series = format!("external_circuit_state{{api=\"strict\",state=\"{state}\"}}");
    metric_value(client, &series)
}

fn sliding(rate: &str) -> Limit {
    Limit::sliding(rate.parse().expect("a rate"))
}

fn settle_with(client: &Outflow, group: Target, status: u16) {
    let mut permit = upstream(client).try_acquire(group).expect("room");
    permit.sending();
    permit.settle(AttemptResult::status(status));
}

// Each of three groups has its own state. The page shows the worst, and the next worst once that
// one ends; the upstream is idle in between.
#[tokio::test]
async fn the_page_shows_the_worst_of_several_states() {
    let client = adapted_client(|rules| {
        rules.health_scope = HealthScope::Group;
        rules.groups = ["orders", "quotes"].map(|name| Group::new(name, Vec::new())).into();
    });
    let (orders, quotes) = (group(&client, "orders"), group(&client, "quotes"));
    assert_eq!(circuit(&client, "CLOSED"), "1.0");
    upstream(&client).force_health(Some(orders), HealthOverride::Sleep);
    assert_eq!([circuit(&client, "OPEN"), circuit(&client, "CLOSED")], ["1.0", "0.0"]);
    upstream(&client).force_health(Some(quotes), HealthOverride::Normal);
    assert_eq!(circuit(&client, "OPEN"), "1.0", "the last to move is not the worst");
    upstream(&client).force_health(Some(orders), HealthOverride::Normal);
    assert_eq!([circuit(&client, "OPEN"), circuit(&client, "CLOSED")], ["0.0", "1.0"]);
}

// The slowest limit of the API and its groups; half of it when throttle responses lower it.
#[tokio::test]
async fn the_page_shows_the_slowest_rate_in_effect() {
    let client = adapted_client(|rules| {
        // The profile that halves its rates after three throttles.
        rules.health = HealthConfig::cautious();
        rules.adaptive = AdaptiveMode::Off;
        rules.limits = vec![sliding("600/min"), sliding("50/s")];
        rules.groups = vec![Group::new("orders", vec![sliding("16/s")])];
    });
    assert_eq!(metric_value(&client, "rate_current"), "10.0", "600 a minute");
    for _ in 0..3 {
        settle_with(&client, group(&client, "default"), 429);
    }
    assert_eq!(metric_value(&client, "rate_current"), "5.0", "throttled");
    let unlimited = self::adapted_client(|_| {});
    assert_eq!(metric_value(&unlimited, "rate_current"), "0.0", "no limit at all");
}

// One success and one server failure; a second later nothing has changed, nor has the page.
#[tokio::test]
async fn the_page_shows_the_current_error_window() {
    let client = adapted_client(|_| {});
    assert_eq!(metric_value(&client, "err_rate_30s"), "0.0");
    settle_with(&client, group(&client, "default"), 200);
    settle_with(&client, group(&client, "default"), 500);
    assert_eq!(metric_value(&client, "err_rate_30s"), "0.5");
    assert_eq!(
        [metric_value(&client, "count_2xx"), metric_value(&client, "count_5xx")],
        ["1.0", "1.0"]
    );
}

// Two may be in flight: with both permits granted a third waits, and leaves the page when it gives
// up.
#[tokio::test]
async fn the_page_shows_waiting_calls_and_calls_in_flight() {
    let client = adapted_client(|rules| {
        let settings = HealthSettings {
            concurrency: Some(2),
            ..HealthSettings::ADAPTIVE
        };
        rules.health = HealthConfig::new(settings).expect("valid");
    });
    assert_eq!(metric_value(&client, "concurrency_current"), "2.0");
    let target = group(&client, "default");
    let permits = [(); 2].map(|()| upstream(&client).try_acquire(target).expect("room"));
    let mut third = Box::pin(upstream(&client).acquire(target));
    assert!(
        third
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()))
            .is_pending()
    );
    let standing = || ["outflow_in_flight", "outflow_waiting"].map(|name| metric_value(&client, name));
    assert_eq!(standing(), ["2.0", "1.0"]);
    drop(third);
    assert_eq!(standing(), ["2.0", "0.0"]);
    drop(permits);
    assert_eq!(standing(), ["0.0", "0.0"]);
}

// The maximum concurrency of two groups together exceeds 32 bits.
#[tokio::test]
async fn the_sum_of_concurrency_limits_does_not_overflow() {
    let client = adapted_client(|rules| {
        rules.health_scope = HealthScope::Group;
        rules.groups = ["orders", "quotes"].map(|name| Group::new(name, Vec::new())).into();
        let settings = HealthSettings {
            concurrency: Some(u32::MAX),
            ..HealthSettings::ADAPTIVE
        };
        rules.health = HealthConfig::new(settings).expect("valid");
    });
    assert_eq!(metric_value(&client, "concurrency_current"), "4294967295.0");
}
