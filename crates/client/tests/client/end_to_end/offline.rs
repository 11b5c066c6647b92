//! Nothing may be sent, or nothing comes back: the cache answers, and says so.

use std::time::Duration;

use outflow::core::HealthOverride;
use outflow::event::CacheLabel;
use outflow::{
    Api, Cache, CacheDirective, CacheMode, CacheSettings, Credential, CredentialPlacement, Outflow,
    Response,
};
use outflow_mock::{Fault, Latency, MockApi, MockResponse, Script, ScriptMatch};
use outflow_testkit::{Background, FaultProxy};

use super::support::{Load, World};

const MINUTE: Duration = Duration::from_mins(1);

fn keeping(api: &mut Api) {
    api.cache = CacheMode::Standard;
}

/// A server whose answers are good for a minute.
fn lasting(control: &str) -> World {
    let page = MockResponse::ok("\"kept\"").header("cache-control", control);
    World::near(MockApi::builder().answer("/**", page))
}

fn status(answer: &Response) -> &str {
    let value = answer.headers().get("cache-status").expect("marked");
    value.to_str().expect("text")
}

fn hold(client: &Outflow, hold: HealthOverride) {
    client
        .upstream("strict")
        .expect("there")
        .force_health(None, hold);
}

// The kept answer is ten minutes old and was good for one. Every way of asking is tried, a write and
// an answer that was never kept among them.
#[tokio::test(start_paused = true)]
async fn no_byte_leaves_while_nothing_may_be_sent() {
    for held in [HealthOverride::CacheOnly, HealthOverride::Sleep] {
        let world = lasting("max-age=60");
        let client = world.client(keeping);
        client.get("strict", "/a").send().await.expect("kept");
        tokio::time::sleep(10 * MINUTE).await;
        hold(&client, held);
        let before = world.net.traffic();

        for call in [
            client.get("strict", "/a").send().await,
            client.get("strict", "/a").send_streaming().await,
            client
                .get("strict", "/a")
                .cache(CacheDirective::Only)
                .send()
                .await,
        ] {
            let answer = call.expect("from the cache");
            assert_eq!(answer.from_cache(), Some(CacheLabel::Stale), "{held:?}");
            assert_eq!(answer.attempts(), 0);
            assert!(
                status(&answer).starts_with("outflow; hit; ttl=-5"),
                "{}",
                status(&answer)
            );
            assert_eq!(answer.text().await.expect("text"), "\"kept\"");
        }
        let missed = client.get("strict", "/b").send().await.expect_err("a miss");
        assert!(missed.is_cache_miss(), "{held:?}: {missed}");
        let text = missed.to_string();
        assert!(
            text.contains("cache") && text.contains("no response"),
            "{text}"
        );
        client
            .post("strict", "/a")
            .body("x")
            .send()
            .await
            .expect_err("a write");
        let around = client.get("strict", "/a").cache(CacheDirective::Bypass);
        around.send().await.expect_err("around the cache");
        let mut load = Load::on(&client);
        load.run(10, MINUTE).await;
        load.ended().await;
        assert_eq!(world.net.traffic(), before, "{held:?}");
        assert_eq!(world.strict.audit().count(), 1);

        client
            .upstream("strict")
            .expect("there")
            .release_health(None);
        let again = client.get("strict", "/a").send().await.expect("online");
        assert!(world.net.traffic() != before, "{again:?}");
    }
}

// The same over a real socket, with a proxy in between that counts.
#[tokio::test]
async fn no_packet_leaves_a_real_socket_while_offline() {
    let page = MockResponse::ok("\"kept\"").header("cache-control", "max-age=0, stale-if-error=60");
    let strict = MockApi::builder().answer("/**", page);
    let server = strict
        .build()
        .expect("valid")
        .listen()
        .await
        .expect("a port");
    let proxy = FaultProxy::start(server.address()).await.expect("a port");
    let url = format!("http://{}", proxy.address());
    let mut api = Api::new("strict", url.parse().expect("a URL"));
    keeping(&mut api);
    let client = Outflow::init([api]).expect("valid");
    client.get("strict", "/a").send().await.expect("kept");
    let before = proxy.traffic();
    assert!(before.there > 0);
    hold(&client, HealthOverride::Sleep);
    for _ in 0..20 {
        let answer = client.get("strict", "/a").send().await.expect("kept");
        assert!(answer.from_cache().is_some());
        client.get("strict", "/b").send().await.expect_err("a miss");
    }
    assert_eq!(proxy.traffic(), before);
}

// Fifty equal calls within the 10 ms that the first takes; another path and another method go alone.
#[tokio::test(start_paused = true)]
async fn equal_calls_at_one_time_are_one_request() {
    let world = lasting("max-age=60");
    let client = world.client(keeping);
    let mut load = Load::on(&client);
    for _ in 0..50 {
        load.start("/a");
    }
    load.start("/b");
    let ended = load.ended().await;
    assert!(ended.iter().all(super::support::Ended::is_good));
    let coalesced = ended.iter().filter(|call| {
        let answer = call.result.as_ref().expect("good");
        answer.from_cache() == Some(CacheLabel::Coalesced)
    });
    assert_eq!(coalesced.count(), 49);
    let audit = world.strict.audit();
    assert_eq!((audit.attempts("/a"), audit.attempts("/b")), (1, 1));
}

// Kept for a minute and usable for an hour after that if the server fails; two hours later it is not.
#[tokio::test(start_paused = true)]
async fn in_an_outage_an_old_answer_is_better_than_none() {
    for fault in [None, Some(Fault::ResetBeforeHead), Some(Fault::CutBody)] {
        let world = lasting("max-age=60, stale-if-error=3600");
        let client = world.client(keeping);
        hold(&client, HealthOverride::Normal);
        client.get("strict", "/a").send().await.expect("kept");
        tokio::time::sleep(2 * MINUTE).await;
        let script = match fault.clone() {
            None => Script::new().rule(ScriptMatch::always(), MockResponse::status(503)),
            Some(fault) => Script::new().rule(ScriptMatch::always(), fault),
        };
        world.strict.rewrite(script);
        let stale = client.get("strict", "/a").send().await.expect("kept");
        assert_eq!(stale.from_cache(), Some(CacheLabel::Stale), "{fault:?}");
        assert_eq!(stale.text().await.expect("text"), "\"kept\"");
        tokio::time::sleep(120 * MINUTE).await;
        match client.get("strict", "/a").send().await {
            Ok(answer) => assert_eq!(answer.status(), 503, "{fault:?}"),
            Err(error) => assert!(fault.is_some(), "{error}"),
        }
    }
}

/// Who the server took a caller to be, as its echo tells.
async fn seen_as(answer: Result<Response, outflow::Error>) -> String {
    let answer = answer.expect("an answer");
    answer.text().await.expect("text")
}

// One cache, one URL, two keys: configured for two clients, and written by two callers of one.
#[tokio::test(start_paused = true)]
async fn nobody_is_given_what_was_kept_for_another_key() {
    let slow = Latency::Fixed(Duration::from_millis(100));
    let echo = MockResponse::echo().header("cache-control", "max-age=600, public");
    let world = World::near(MockApi::builder().answer("/**", echo));
    world.strict.delay(slow, slow);
    let cache = Cache::open(CacheSettings::default()).expect("in memory");
    let keyed = |key: &str| {
        let builder = world.builder(|api| {
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
        let (first, second) = tokio::join!(
            one.get("strict", "/me").send(),
            two.get("strict", "/me").send()
        );
        let (first, second) = (seen_as(first).await, seen_as(second).await);
        assert!(
            first.contains("key-one") && !first.contains("key-two"),
            "{first}"
        );
        assert!(
            second.contains("key-two") && !second.contains("key-one"),
            "{second}"
        );
    }
    let open = world.client(|api| api.cache = CacheMode::Standard);
    let ask = |key: &'static str| {
        let call = open.get("strict", "/mine").header("authorization", key);
        Background::start(call.send())
    };
    for _ in 0..2 {
        let (first, second) = (ask("as-one"), ask("as-two"));
        let (first, second) = (
            seen_as(first.join().await).await,
            seen_as(second.join().await).await,
        );
        assert!(
            first.contains("as-one") && !first.contains("as-two"),
            "{first}"
        );
        assert!(
            second.contains("as-two") && !second.contains("as-one"),
            "{second}"
        );
    }
}
