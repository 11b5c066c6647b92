//! A day of the demonstration in virtual time, with its own configuration, failures and load.

use std::sync::Arc;
use std::time::Duration;

use outflow::config::{Config, Environment};
use outflow::core::HealthState;
use outflow::{Api, IoStream, Outflow};
use outflow_mock::{MockApi, Server};
use outflow_testkit::{Background, LinkLatency, VirtualNet, VirtualTime};
use tokio::time::interval;

use super::{MockApis, chat, config, flaky};

/// Returns an API as `dev` configures it, at the address of this server.
fn configured(name: &str, server: &Server) -> Api {
    let urls = [server.url(), server.url(), server.url()];
    let config = Config::read(&[config(&urls, 0, 0)], &MockApis::environment());
    let apis = config.expect("valid").apis.into_iter();
    let mut named = apis.filter(|api| api.name == name);
    named.next().expect("it is configured")
}

/// Connects a client to the API over a network in virtual time.
fn connect(name: &str, mock: &MockApi) -> (Outflow, Background<()>) {
    let net = VirtualNet::new(1, LinkLatency::from_delay(Duration::ZERO));
    let server = Arc::new(mock.in_memory());
    let client = Outflow::builder().api(configured(name, &server));
    let listener = net.clone();
    let client =
        client
            .timer(Arc::new(VirtualTime::new()))
            .connector(Arc::new(move |_: &str, _: u16| -> outflow::Connecting {
                let net = net.clone();
                Box::pin(async move {
                    let stream: Box<dyn IoStream> = Box::new(net.connect().await?);
                    Ok(stream)
                })
            }));
    let accepting = Background::start(async move {
        loop {
            server.serve_stream(listener.accept().await);
        }
    });
    (client.build().expect("valid"), accepting)
}

// One call a second, as the load of `dev` sends them. A quarter of the responses are failures, with retries one
// call in sixty-four fails; the state may change, and every hour most calls succeed.
#[tokio::test(start_paused = true)]
async fn the_flaky_api_of_dev_stays_lively_for_a_day() {
    let mock = flaky().expect("constants").build().expect("valid");
    let (client, _accepting) = connect("flaky", &mock);
    let mut second = interval(Duration::from_secs(1));
    let mut worst = u32::MAX;
    for hour in 0..24_u32 {
        let mut good = 0;
        for number in 0..3_600 {
            second.tick().await;
            let path = format!("/orders/{hour}-{number}");
            let called = client.get("flaky", &path).send().await;
            good += u32::from(called.is_ok_and(|response| response.status() == 200));
            let state = client.upstream("flaky").expect("there").report().health[0]
                .snapshot
                .state;
            assert_ne!(state, HealthState::CacheOnly, "hour {hour}, call {number}");
        }
        worst = worst.min(good);
    }
    assert!(worst >= 3_000, "{worst} of 3,600");
}

// A library of OpenAI says no cost, and asks for completions from none to more than the whole limit. Four programs at
// once keep the limit of tokens busy for an hour.
#[tokio::test(start_paused = true)]
async fn the_chat_api_of_dev_throttles_no_call() {
    let mock = chat().expect("constants").build().expect("valid");
    let (client, _accepting) = connect("chat", &mock);
    let end = tokio::time::Instant::now() + Duration::from_hours(1);
    let programs = [0, 5, 380, 4_000].map(|most| {
        let client = client.clone();
        async move {
            let question = format!("{{\"messages\":[{{\"content\":\"Why should I wait?\"}}],\"max_tokens\":{most}}}");
            while tokio::time::Instant::now() < end {
                let call = client.post("chat", "/chat/completions").body(question.clone());
                let status = call.send().await.map(|response| response.status());
                assert_eq!(status.expect("a response"), 200, "{most}");
            }
        }
    });
    let [first, second, third, fourth] = programs;
    tokio::join!(first, second, third, fourth);
    let totals = mock.totals();
    assert_eq!(totals.refused, 0);
    // 1,000 tokens in ten seconds are ten calls that reserve 100 each.
    assert!((3_500..=3_610).contains(&totals.seen), "{}", totals.seen);
}

// A user who calls the mock past Outflow has no key.
#[test]
fn the_chat_api_of_dev_has_a_key_and_the_others_have_none() {
    let urls = ["http://127.0.0.1:1", "http://127.0.0.1:2", "http://127.0.0.1:3"].map(str::to_owned);
    let apis = Config::read(&[config(&urls, 0, 0)], &MockApis::environment())
        .expect("valid")
        .apis;
    let with_key: Vec<_> = apis.iter().filter(|api| api.credential.is_some()).collect();
    assert_eq!(with_key.len(), 1);
    assert_eq!(with_key[0].name, "chat");
    assert!(Config::read(&[config(&urls, 0, 0)], &Environment::empty()).is_err());
}
