//! What a page of metrics says of the doors: what is true when it is asked for.

use std::future::Future;
use std::task::{Context, Waker};

use outflow::core::{AdaptiveMode, HealthConfig, HealthOverride, HealthSettings, Limit};
use outflow::{Api, AttemptResult, Group, HealthScope, Outflow, Rules, Target, Upstream};

/// A client for an API that nobody calls, with what is changed about it.
fn client(adapt: impl FnOnce(&mut Rules)) -> Outflow {
    let mut api = Api::new("strict", "http://localhost:1".parse().expect("a URL"));
    api.rules = Rules::unlimited();
    adapt(&mut api.rules);
    Outflow::init([api]).expect("valid")
}

fn door(client: &Outflow) -> Upstream {
    client.upstream("strict").expect("there")
}

fn group(client: &Outflow, name: &str) -> Target {
    door(client).group(name).expect("there")
}

/// The value of a metric of the one API, as the page says it now.
fn told(client: &Outflow, metric: &str) -> String {
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
    told(client, &series)
}

fn sliding(rate: &str) -> Limit {
    Limit::sliding(rate.parse().expect("a rate"))
}

fn answered(client: &Outflow, group: Target, status: u16) {
    let mut permit = door(client).try_acquire(group).expect("room");
    permit.sending();
    permit.settle(AttemptResult::status(status));
}

// Of three groups each has a state of its own. The page shows the worst, and the next best once that is
// over; nothing happened at the door in between.
#[tokio::test]
async fn of_several_states_the_worst_is_shown() {
    let client = client(|rules| {
        rules.health_scope = HealthScope::Group;
        rules.groups = ["orders", "quotes"]
            .map(|name| Group::new(name, Vec::new()))
            .into();
    });
    let (orders, quotes) = (group(&client, "orders"), group(&client, "quotes"));
    assert_eq!(circuit(&client, "CLOSED"), "1.0");
    door(&client).force_health(Some(orders), HealthOverride::Sleep);
    assert_eq!(
        [circuit(&client, "OPEN"), circuit(&client, "CLOSED")],
        ["1.0", "0.0"]
    );
    door(&client).force_health(Some(quotes), HealthOverride::Normal);
    assert_eq!(
        circuit(&client, "OPEN"),
        "1.0",
        "the last to move is not the worst"
    );
    door(&client).force_health(Some(orders), HealthOverride::Normal);
    assert_eq!(
        [circuit(&client, "OPEN"), circuit(&client, "CLOSED")],
        ["0.0", "1.0"]
    );
}

// The slowest of the API's own and of its groups' limits; half of it when refusals throttle it.
#[tokio::test]
async fn the_rate_is_the_slowest_in_effect() {
    let client = client(|rules| {
        rules.adaptive = AdaptiveMode::Off;
        rules.limits = vec![sliding("600/min"), sliding("50/s")];
        rules.groups = vec![Group::new("orders", vec![sliding("16/s")])];
    });
    assert_eq!(told(&client, "rate_current"), "10.0", "600 a minute");
    for _ in 0..3 {
        answered(&client, group(&client, "default"), 429);
    }
    assert_eq!(told(&client, "rate_current"), "5.0", "throttled");
    let unlimited = self::client(|_| {});
    assert_eq!(told(&unlimited, "rate_current"), "0.0", "no limit at all");
}

// One success and one failure of the server; a second later nothing has changed, so neither has the page.
#[tokio::test]
async fn the_error_window_is_shown_as_it_is() {
    let client = client(|_| {});
    assert_eq!(told(&client, "err_rate_30s"), "0.0");
    answered(&client, group(&client, "default"), 200);
    answered(&client, group(&client, "default"), 500);
    assert_eq!(told(&client, "err_rate_30s"), "0.5");
    assert_eq!(
        [told(&client, "count_2xx"), told(&client, "count_5xx")],
        ["1.0", "1.0"]
    );
}

// Two may be in flight: with both permits out a third waits, and is gone from the page when it gives up.
#[tokio::test]
async fn who_waits_and_who_is_in_flight_is_shown_while_it_is_so() {
    let client = client(|rules| {
        let settings = HealthSettings {
            concurrency: 2,
            ..HealthSettings::ADAPTIVE
        };
        rules.health = HealthConfig::new(settings).expect("valid");
    });
    assert_eq!(told(&client, "concurrency_current"), "2.0");
    let ask = group(&client, "default");
    let permits = [(); 2].map(|()| door(&client).try_acquire(ask).expect("room"));
    let mut third = Box::pin(door(&client).acquire(ask));
    assert!(
        third
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()))
            .is_pending()
    );
    let standing = || ["outflow_in_flight", "outflow_waiting"].map(|name| told(&client, name));
    assert_eq!(standing(), ["2.0", "1.0"]);
    drop(third);
    assert_eq!(standing(), ["2.0", "0.0"]);
    drop(permits);
    assert_eq!(standing(), ["0.0", "0.0"]);
}

// As many as a group may have in flight, for each of two groups, is more than 32 bits hold.
#[tokio::test]
async fn what_may_be_in_flight_is_added_without_overflow() {
    let client = client(|rules| {
        rules.health_scope = HealthScope::Group;
        rules.groups = ["orders", "quotes"]
            .map(|name| Group::new(name, Vec::new()))
            .into();
        let settings = HealthSettings {
            concurrency: u32::MAX,
            ..HealthSettings::ADAPTIVE
        };
        rules.health = HealthConfig::new(settings).expect("valid");
    });
    assert_eq!(told(&client, "concurrency_current"), "4294967295.0");
}
