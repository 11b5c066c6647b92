//! Nothing may be sent, or no response arrives: the cache serves, and says so.

use std::time::Duration;

use outflow::core::{HealthOverride, HealthState};
use outflow::event::CacheLabel;
use outflow::{
    Api, Cache, CacheDirective, CacheMode, CacheSettings, CallDecision, Credential, CredentialPlacement, Outflow,
    Response, StaleOffline,
};
use outflow_mock::{Fault, Latency, MockApi, MockResponse, Script, ScriptMatch};
use outflow_testkit::{Background, FaultProxy};

use super::support::{CallLoad, TestBed};

const MINUTE: Duration = Duration::from_mins(1);

fn with_cache(api: &mut Api) {
    api.cache = CacheMode::Standard;
}

/// Starts a server whose responses are fresh for a minute.
fn caching_server(control: &str) -> TestBed {
    let page = MockResponse::ok("\"kept\"").header("cache-control", control);
    TestBed::near(MockApi::builder().answer("/**", page))
}

fn status(response: &Response) -> &str {
    let value = response.headers().get("cache-status").expect("marked");
    value.to_str().expect("text")
}

fn override_health(client: &Outflow, health: HealthOverride) {
    client.upstream("strict").expect("there").force_health(None, health);
}

// The stored response is ten minutes old and was fresh for one. The test tries every kind of call,
// a write and an uncached read among them.
#[tokio::test(start_paused = true)]
async fn no_byte_leaves_while_offline() {
    for held in [HealthOverride::CacheOnly, HealthOverride::Sleep] {
        let bed = caching_server("max-age=60");
        let client = bed.client(with_cache);
        client.get("strict", "/a").send().await.expect("kept");
        tokio::time::sleep(10 * MINUTE).await;
        override_health(&client, held);
        let before = bed.net.traffic();

        for call in [
            client.get("strict", "/a").send().await,
            client.get("strict", "/a").send_streaming().await,
            client.get("strict", "/a").cache(CacheDirective::Only).send().await,
        ] {
            let response = call.expect("from the cache");
            assert_eq!(response.from_cache(), Some(CacheLabel::Stale), "{held:?}");
            assert_eq!(response.attempts(), 0);
            assert!(
                status(&response).starts_with("outflow; hit; ttl=-5"),
                "{}",
                status(&response)
            );
            assert_eq!(response.text().await.expect("text"), "\"kept\"");
        }
        let missed = client.get("strict", "/b").send().await.expect_err("a miss");
        assert!(missed.is_cache_miss(), "{held:?}: {missed}");
        let text = missed.to_string();
        assert!(text.contains("cache") && text.contains("no response"), "{text}");
        client.post("strict", "/a").body("x").send().await.expect_err("a write");
        let around = client.get("strict", "/a").cache(CacheDirective::Bypass);
        around.send().await.expect_err("around the cache");
        let mut load = CallLoad::on(&client);
        load.run(10, MINUTE).await;
        load.ended().await;
        assert_eq!(bed.net.traffic(), before, "{held:?}");
        assert_eq!(bed.mock.audit().count(), 1);

        client.upstream("strict").expect("there").release_health(None);
        let again = client.get("strict", "/a").send().await.expect("online");
        assert!(bed.net.traffic() != before, "{again:?}");
    }
}

// The response is a minute past its lifetime. By default it must be confirmed first, which nothing can do now.
#[tokio::test(start_paused = true)]
async fn an_offline_client_serves_nothing_stale_that_requires_validation() {
    for control in [
        "max-age=60, must-revalidate",
        "max-age=60, no-cache",
        "max-age=60, proxy-revalidate",
        "max-age=60, s-maxage=60",
    ] {
        for held in [HealthOverride::CacheOnly, HealthOverride::Sleep] {
            let bed = caching_server(control);
            let strict = bed.client(with_cache);
            let lenient = bed.client(|api| {
                with_cache(api);
                api.stale_offline = StaleOffline::Any;
            });
            for client in [&strict, &lenient] {
                client.get("strict", "/a").send().await.expect("kept");
                override_health(client, held);
            }
            tokio::time::sleep(2 * MINUTE).await;
            let call = || strict.get("strict", "/a");
            for result in [
                call().send().await,
                call().send_streaming().await,
                call().cache(CacheDirective::Only).send().await,
            ] {
                let error = result.expect_err("not confirmed");
                assert!(error.is_cache_miss(), "{control}: {error}");
            }
            let response = lenient.get("strict", "/a").send().await.expect("by configuration");
            assert_eq!(response.from_cache(), Some(CacheLabel::Stale), "{control}");
        }
    }
}

/// Builds a client with a stale response to /a, whose API failed until it slept.
async fn client_asleep(bed: &TestBed) -> Outflow {
    let client = bed.client(|api| {
        with_cache(api);
        // A retry would wait for the end of the sleep.
        api.retry.count = 0;
    });
    client.get("strict", "/a").send().await.expect("kept");
    tokio::time::sleep(2 * MINUTE).await;
    let failure = Script::new().rule(ScriptMatch::always(), MockResponse::status(503));
    bed.mock.rewrite(failure);
    let upstream = client.upstream("strict").expect("there");
    let target = upstream.group("default").expect("there");
    while upstream.state(target) != HealthState::Sleep {
        client.get("strict", "/b").send().await.expect("a failure of the API");
    }
    client
}

// The API answers /a once and then fails until it sleeps; the response is stale by then. The sleep ends by timer, and
// the next call is a probe.
#[tokio::test(start_paused = true)]
async fn an_api_asleep_serves_its_stored_response_at_once() {
    let bed = caching_server("max-age=60");
    let client = client_asleep(&bed).await;
    let (before, began) = (bed.net.traffic(), tokio::time::Instant::now());
    let said = client.get("strict", "/a").explain().await.expect("a decision");
    assert_eq!(said, CallDecision::Cached(CacheLabel::Stale));
    for call in [
        client.get("strict", "/a").send().await,
        client.get("strict", "/a").send_streaming().await,
    ] {
        let response = call.expect("from the cache");
        assert_eq!(response.from_cache(), Some(CacheLabel::Stale));
        assert_eq!(response.attempts(), 0);
        assert!(status(&response).starts_with("outflow; hit; ttl=-"));
        assert!(response.headers().contains_key("age"));
    }
    assert_eq!((bed.net.traffic(), began.elapsed()), (before, Duration::ZERO));
    // Without a stored response a call still waits for a probe.
    bed.mock.rewrite(Script::new());
    let other = client.get("strict", "/b").send().await.expect("after the sleep");
    assert!(other.status().is_success() && began.elapsed() > Duration::ZERO);
    let again = client.get("strict", "/a").send().await.expect("awake");
    assert_eq!(again.from_cache(), None);
}

// Calls with the kept response alone do not keep the API asleep.
#[tokio::test(start_paused = true)]
async fn a_sleep_ends_though_the_cache_serves_all_calls() {
    let bed = caching_server("max-age=60");
    let client = client_asleep(&bed).await;
    bed.mock.rewrite(Script::new());
    // The longest first sleep is far shorter than this.
    for _ in 0..60 {
        let response = client.get("strict", "/a").send().await.expect("kept or new");
        if response.from_cache().is_none() {
            return;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    panic!("no call probed the API");
}

// Uses a real socket, with a counting proxy in between.
#[tokio::test]
async fn no_packet_leaves_a_real_socket_while_offline() {
    let page = MockResponse::ok("\"kept\"").header("cache-control", "max-age=0, stale-if-error=60");
    let mock = MockApi::builder().answer("/**", page);
    let server = mock.build().expect("valid").listen().await.expect("a port");
    let proxy = FaultProxy::start(server.address()).await.expect("a port");
    let url = format!("http://{}", proxy.address());
    let mut api = Api::new("strict", url.parse().expect("a URL"));
    with_cache(&mut api);
    let client = Outflow::init([api]).expect("valid");
    client.get("strict", "/a").send().await.expect("kept");
    let before = proxy.traffic();
    assert!(before.there > 0);
    override_health(&client, HealthOverride::Sleep);
    for _ in 0..20 {
        let response = client.get("strict", "/a").send().await.expect("kept");
        assert!(response.from_cache().is_some());
        client.get("strict", "/b").send().await.expect_err("a miss");
    }
    assert_eq!(proxy.traffic(), before);
}

// Fifty equal calls within the 10 ms that the first takes; another path and another method go
// alone.
#[tokio::test(start_paused = true)]
async fn concurrent_equal_calls_send_one_request() {
    let bed = caching_server("max-age=60");
    let client = bed.client(with_cache);
    let mut load = CallLoad::on(&client);
    for _ in 0..50 {
        load.start("/a");
    }
    load.start("/b");
    let ended = load.ended().await;
    assert!(ended.iter().all(super::support::EndedCall::is_good));
    let coalesced = ended.iter().filter(|call| {
        let response = call.result.as_ref().expect("good");
        response.from_cache() == Some(CacheLabel::Coalesced)
    });
    assert_eq!(coalesced.count(), 49);
    let audit = bed.mock.audit();
    assert_eq!((audit.attempts("/a"), audit.attempts("/b")), (1, 1));
}

// Five equal calls at once. Each of these responses is for its own request, the last one because of the credential.
#[tokio::test(start_paused = true)]
async fn concurrent_equal_calls_share_no_response_for_one_request() {
    for (control, key) in [
        ("no-cache", None),
        ("max-age=0", None),
        ("private", Some("the-key-of-alice")),
        ("private, max-age=60", Some("the-key-of-alice")),
    ] {
        let bed = caching_server(control);
        let client = bed.client(|api| {
            with_cache(api);
            api.credential = key.map(|key| Credential {
                secret: key.to_owned().into(),
                place: CredentialPlacement::Bearer,
            });
        });
        let mut load = CallLoad::on(&client);
        for _ in 0..5 {
            load.start("/a");
        }
        let ended = load.ended().await;
        assert!(ended.iter().all(super::support::EndedCall::is_good), "{control}");
        assert_eq!(bed.mock.audit().attempts("/a"), 5, "{control}");
    }
}

// Fresh for a minute and usable for an hour after that if the server fails; two hours later it is
// not.
#[tokio::test(start_paused = true)]
async fn an_outage_serves_a_stale_response_within_its_window() {
    for fault in [None, Some(Fault::ResetBeforeHead), Some(Fault::CutBody)] {
        let bed = caching_server("max-age=60, stale-if-error=3600");
        let client = bed.client(with_cache);
        override_health(&client, HealthOverride::Normal);
        client.get("strict", "/a").send().await.expect("kept");
        tokio::time::sleep(2 * MINUTE).await;
        let script = match fault.clone() {
            None => Script::new().rule(ScriptMatch::always(), MockResponse::status(503)),
            Some(fault) => Script::new().rule(ScriptMatch::always(), fault),
        };
        bed.mock.rewrite(script);
        let stale = client.get("strict", "/a").send().await.expect("kept");
        assert_eq!(stale.from_cache(), Some(CacheLabel::Stale), "{fault:?}");
        assert_eq!(stale.text().await.expect("text"), "\"kept\"");
        tokio::time::sleep(120 * MINUTE).await;
        match client.get("strict", "/a").send().await {
            Ok(response) => assert_eq!(response.status(), 503, "{fault:?}"),
            Err(error) => assert!(fault.is_some(), "{error}"),
        }
    }
}

/// Returns the caller as the server saw it, from its echo.
async fn seen_as(response: Result<Response, outflow::Error>) -> String {
    let response = response.expect("a response");
    response.text().await.expect("text")
}

// One cache, one URL, two keys: configured in two clients, and set by two callers of one.
#[tokio::test(start_paused = true)]
async fn no_caller_gets_a_response_stored_for_another_key() {
    let slow = Latency::Fixed(Duration::from_millis(100));
    let echo = MockResponse::echo().header("cache-control", "max-age=600, public");
    let bed = TestBed::near(MockApi::builder().answer("/**", echo));
    bed.mock.delay(slow, slow);
    let cache = Cache::open(CacheSettings::default()).expect("in memory");
    let keyed = |key: &str| {
        let builder = bed.builder(|api| {
            api.cache = CacheMode::Force(10 * MINUTE);
            api.credential = Some(Credential {
                secret: key.to_owned().into(),
                place: CredentialPlacement::Bearer,
            });
        });
        builder.cache(cache.clone()).build().expect("valid")
    };
    let (one, two) = (keyed("key-one"), keyed("key-two"));
    for _ in 0..2 {
        let (first, second) = tokio::join!(one.get("strict", "/me").send(), two.get("strict", "/me").send());
        let (first, second) = (seen_as(first).await, seen_as(second).await);
        assert!(first.contains("key-one") && !first.contains("key-two"), "{first}");
        assert!(second.contains("key-two") && !second.contains("key-one"), "{second}");
    }
    let open = bed.client(|api| api.cache = CacheMode::Standard);
    let ask = |key: &'static str| {
        let call = open.get("strict", "/mine").header("authorization", key);
        Background::start(call.send())
    };
    for _ in 0..2 {
        let (first, second) = (ask("as-one"), ask("as-two"));
        let (first, second) = (seen_as(first.join().await).await, seen_as(second.join().await).await);
        assert!(first.contains("as-one") && !first.contains("as-two"), "{first}");
        assert!(second.contains("as-two") && !second.contains("as-one"), "{second}");
    }
}
