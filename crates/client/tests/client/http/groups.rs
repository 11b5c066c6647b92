//! Request content, and the group in which a call counts.

use std::collections::HashMap;
use std::time::Duration;

use outflow::core::{Cost, Limit, Priority};
use outflow::event::{EventKind, StatusLabel};
use outflow::{Credential, CredentialPlacement, Group, Route, Rules};
use outflow_mock::{MockApi, MockResponse, Script};
use outflow_testkit::EventRecorder;

use super::support::{over_pipes, scripted};

#[tokio::test(start_paused = true)]
async fn values_are_sent_and_received_as_json() {
    let mock = scripted(Script::new());
    mock.answer("/films", MockResponse::ok(r#"{"title": 17}"#));
    let client = over_pipes(&mock, |_| {});
    let sent = HashMap::from([("year", 1968)]);
    let call = client.post("strict", "/films").json(&sent);
    let film: HashMap<String, u32> = call.send().await.expect("one").json().await.expect("JSON");
    assert_eq!(film["title"], 17);
    let audit = mock.audit();
    assert_eq!(audit.arrivals()[0].body, outflow_mock::Received::Whole(13));
}

#[tokio::test(start_paused = true)]
async fn parameters_are_encoded_and_the_key_comes_last() {
    let mock = scripted(Script::new());
    mock.answer("/find", MockResponse::echo());
    let client = over_pipes(&mock, |api| {
        api.credential = Some(Credential {
            secret: "a&b".to_owned().into(),
            place: CredentialPlacement::Query("api_key".into()),
        });
    });
    let call = client
        .get("strict", "/find?sig=a%2Fb")
        .query([("q", "a b&c"), ("가", "나")]);
    let seen = call.send().await.expect("a response").text().await.expect("text");
    let query = "sig=a%2Fb&q=a%20b%26c&%EA%B0%80=%EB%82%98&api_key=a%26b";
    assert!(seen.contains(&format!("\"query\":\"{query}\"")), "{seen}");
}

// Quotes are free; orders are two a second, by their route or by the caller's choice.
#[tokio::test(start_paused = true)]
async fn a_call_counts_in_its_group_at_its_cost() {
    let mock = scripted(Script::new());
    let two = "2/s".parse().expect("valid");
    let client = over_pipes(&mock, |api| {
        api.rules = Rules::unlimited();
        api.rules.groups = vec![Group::new("orders", vec![Limit::sliding(two)])];
        api.rules.routes = vec![Route {
            methods: Vec::new(),
            pattern: "/orders/**".parse().expect("valid"),
            group: "orders".into(),
            cost: None,
        }];
    });
    let recorder = EventRecorder::subscribed_to(client.events());
    let began = tokio::time::Instant::now();
    client.get("strict", "/quotes").send().await.expect("free");
    client.get("strict", "/orders/1").send().await.expect("one");
    client
        .get("strict", "/other")
        .group("orders")
        .send()
        .await
        .expect("two");
    assert!(began.elapsed() < Duration::from_millis(10), "{:?}", began.elapsed());
    let both = client
        .get("strict", "/orders/2")
        .cost(Cost::new(2))
        .priority(Priority::High);
    both.send().await.expect("both at once");
    assert!(began.elapsed() >= Duration::from_secs(1), "{:?}", began.elapsed());
    let groups: Vec<_> = recorder.finished().into_iter().map(|one| one.group).collect();
    assert_eq!(groups, ["default", "orders", "orders", "orders"]);
}

#[tokio::test(start_paused = true)]
async fn a_finished_call_event_has_every_field_of_its_log_line() {
    let mock = MockApi::builder()
        .noting(http::HeaderName::from_static("traceparent"))
        .build()
        .expect("valid");
    mock.answer("/a", MockResponse::status(404));
    let client = over_pipes(&mock, |_| {});
    let recorder = EventRecorder::subscribed_to(client.events());
    let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
    let parent = format!("00-{trace}-00f067aa0ba902b7-01");
    let call = client.get("strict", "/a?key=CANARY").trace_parent(&parent);
    call.send().await.expect("404 is an answer");
    let finished = recorder.finished().remove(0);
    assert_eq!((finished.method, finished.path.as_str()), ("GET", "/a"));
    assert_eq!(
        (finished.status, finished.code, finished.reason),
        (StatusLabel::ClientError, Some(404), None)
    );
    assert_eq!(finished.attempts, 1);
    for event in recorder.all() {
        assert_eq!(
            event.trace.to_string(),
            trace,
            "every event of the call names its trace: {event:?}"
        );
    }
    assert_eq!(finished.request_id.len(), 36);
    let audit = mock.audit();
    let (_, sent) = &audit.arrivals()[0].headers[0];
    let sent = sent.to_str().expect("text");
    assert!(sent.contains(trace) && !sent.contains("00f067aa0ba902b7"), "{sent}");
    assert!(
        recorder
            .all()
            .iter()
            .any(|event| matches!(event.what, EventKind::Admitted { .. }))
    );
}

// Two calls in flight, one of them still reading: closing waits for both and admits no third.
#[tokio::test(start_paused = true)]
async fn closing_waits_for_calls_in_flight() {
    let mock = scripted(Script::new());
    let latency = outflow_mock::Latency::Fixed(Duration::from_secs(2));
    mock.delay(latency, latency);
    let client = over_pipes(&mock, |_| {});
    let (response, (closed, refused)) = tokio::join!(client.get("strict", "/").send(), async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let hasty = client.close(Duration::from_millis(100)).await;
        let refused = client.get("strict", "/").send().await;
        ((hasty, client.close(Duration::from_secs(10)).await), refused)
    });
    assert_eq!(response.expect("it was in flight").status(), 200);
    assert_eq!(closed, (false, true));
    let error = refused.expect_err("closed");
    assert!(
        error.is_refused() && error.to_string().contains("shutting down"),
        "{error}"
    );
}

// One order a minute. An escape that every server decodes is the same path. An encoded slash
// belongs to its segment, so that `/orders%2F1` is another path.
#[tokio::test(start_paused = true)]
async fn a_path_counts_in_its_group_in_every_spelling() {
    let mock = scripted(Script::new());
    let client = over_pipes(&mock, |api| {
        let limit = Limit::sliding("1/m".parse().expect("a rate"));
        api.rules.groups = vec![Group::new("orders", vec![limit])];
        api.rules.routes = vec![Route {
            methods: Vec::new(),
            pattern: "/orders/**".parse().expect("a pattern"),
            group: "orders".into(),
            cost: None,
        }];
    });
    for (path, goes) in [
        ("/orders/1", true),
        ("/%6frders/1", false),
        ("/orders//1", false),
        ("/orders/1?x=2", false),
        ("/orders%2F1", true),
    ] {
        let call = client.get("strict", path).max_wait(Duration::from_secs(1));
        assert_eq!(call.send().await.is_ok(), goes, "{path}");
    }
}

// Everything that a program stores, shares or gives to another task.
#[test]
fn public_types_are_send_and_sync() {
    fn shared<T: Send + Sync + 'static>() {}
    fn sent<T: Send>(_: T) {}
    shared::<outflow::Outflow>();
    shared::<outflow::Upstream>();
    shared::<outflow::Permit>();
    shared::<outflow::PendingBody>();
    shared::<outflow::Acquire>();
    shared::<outflow::Response>();
    shared::<outflow::Body>();
    shared::<outflow::Error>();
    shared::<outflow::Config>();
    sent(|client: outflow::Outflow| {
        sent(client.get("a", "/").send());
        sent(client.get("a", "/").send_streaming());
    });
}
