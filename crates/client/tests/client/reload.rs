//! A client that is given another configuration while its calls go on, over real sockets.

#![allow(
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test may stop at the first surprise, in its helpers too"
)]

use std::time::Duration;

use outflow::config::{Environment, Source};
use outflow::core::{Backoff, HealthState, RetryBudgetSettings, Share};
use outflow::{
    Api, Config, Credential, CredentialPlacement, Outflow, RefusalReason, ReloadChanges, Rules,
    TlsTrust,
};
use outflow_mock::{Latency, MockApi, MockResponse, Server};

const PATIENCE: Duration = Duration::from_secs(10);

async fn server(delay: Duration) -> Server {
    let api = MockApi::builder()
        .answer("/**", MockResponse::ok("{}"))
        .delay(Latency::Fixed(delay), Latency::None)
        .build()
        .expect("valid");
    api.listen().await.expect("a port")
}

/// An API with this limit, ready to wait for an hour.
fn api(name: &str, server: &Server, rate: &str) -> Api {
    let mut api = Api::new(name, server.url().parse().expect("a URL"));
    api.rules = Rules::with_limit(rate.parse().expect("a rate"));
    api.rules.max_wait = Duration::from_hours(2);
    api
}

async fn status(client: &Outflow, api: &str) -> u16 {
    let answer = client.get(api, "/").send().await;
    answer.expect("an answer").status().as_u16()
}

fn names(list: &[&str]) -> Vec<smol_str::SmolStr> {
    list.iter().map(smol_str::SmolStr::new).collect()
}

// One an hour is used; with two, the call that waits goes at once, and a third does not.
#[tokio::test]
async fn a_limit_that_grew_lets_a_waiting_call_go_and_counts_what_was_used() {
    let server = server(Duration::ZERO).await;
    let client = Outflow::init([api("one", &server, "1/h")]).expect("valid");
    assert_eq!(status(&client, "one").await, 200);
    let waits = status(&client, "one");
    let reload = async {
        let door = client.upstream("one").expect("there");
        while door.report().waiting == 0 {
            tokio::task::yield_now().await;
        }
        client.reload([api("one", &server, "2/h")]).expect("valid")
    };
    let (code, changes) = tokio::join!(waits, reload);
    assert_eq!((code, changes.changed), (200, names(&["one"])));
    let door = client.upstream("one").expect("there");
    let third = door.try_acquire(door.route(&http::Method::GET, "/"));
    assert!(third.is_err(), "two in all");
    assert_eq!(server.api().audit().count(), 2);
}

// One call is at the server, which takes its time, and one waits for the next hour when their API is
// removed: the first ends as it would have, the second is told why it does not go.
#[tokio::test]
async fn a_removed_api_refuses_who_waits_and_ends_what_is_in_flight() {
    let server = server(Duration::from_millis(300)).await;
    let kept = || api("kept", &server, "9/s");
    let client = Outflow::init([api("gone", &server, "1/h"), kept()]).expect("valid");
    let reload = async {
        let door = client.upstream("gone").expect("there");
        while door.report().waiting == 0 {
            tokio::task::yield_now().await;
        }
        client.reload([kept()]).expect("valid")
    };
    let (in_flight, waits, changes) = tokio::join!(
        status(&client, "gone"),
        client.get("gone", "/").send(),
        reload
    );
    assert_eq!(in_flight, 200);
    let refusal = waits.expect_err("it may not go");
    assert_eq!(
        refusal.refusal().map(|why| &why.cause),
        Some(&RefusalReason::Removed)
    );
    assert_eq!(changes.removed, names(&["gone"]));
    let unknown = client.get("gone", "/").send().await.expect_err("unknown");
    assert!(unknown.to_string().contains("gone"), "{unknown}");
    assert_eq!(status(&client, "kept").await, 200);
}

// Its one call of this hour is used before it goes, and still is when it comes back.
#[tokio::test]
async fn an_api_that_comes_back_has_used_what_it_had_used() {
    let server = server(Duration::ZERO).await;
    let client = Outflow::init([api("one", &server, "1/h")]).expect("valid");
    assert_eq!(status(&client, "one").await, 200);
    client.reload(Vec::new()).expect("valid");
    let changes = client.reload([api("one", &server, "1/h")]).expect("valid");
    assert_eq!(changes.added, names(&["one"]));
    let door = client.upstream("one").expect("there");
    let ask = door.route(&http::Method::GET, "/");
    let refusal = door.try_acquire(ask).expect_err("one an hour");
    assert!(
        matches!(refusal.cause, RefusalReason::Busy(_)),
        "{refusal:?}"
    );
}

// Two calls earn one retry: the second call has it, and the third earns half of the next. The fourth has
// that if the half was kept while the API was gone.
#[tokio::test]
async fn an_api_that_comes_back_has_the_retries_that_it_had() {
    let failing = MockApi::builder().answer("/**", MockResponse::status(503));
    let failing = failing.build().expect("valid").listen().await;
    let failing = failing.expect("a port");
    let earning = || {
        let mut earning = api("one", &failing, "1000/s");
        let (base, cap) = (Duration::from_millis(1), Duration::from_millis(2));
        earning.retry.backoff = Backoff::full_jitter(base, cap).expect("a backoff");
        earning.retry.budget = RetryBudgetSettings {
            share: Share::percent(50),
            per_second: 0,
            ttl: Duration::from_hours(24),
        };
        earning
    };
    let client = Outflow::init([earning()]).expect("valid");
    let asked = async || {
        assert_eq!(status(&client, "one").await, 503);
        failing.api().totals().seen
    };
    assert_eq!([asked().await, asked().await, asked().await], [1, 3, 4]);
    client.reload(Vec::new()).expect("valid");
    client.reload([earning()]).expect("valid");
    assert_eq!(asked().await, 6);
}

// A client that is being closed lets nothing out, whatever is configured meanwhile: neither an API that
// is new nor one that is back.
#[tokio::test]
async fn an_api_that_comes_while_the_client_is_closed_stays_closed() {
    let server = server(Duration::ZERO).await;
    let client = Outflow::init([api("one", &server, "9/s")]).expect("valid");
    client.reload(Vec::new()).expect("valid");
    assert!(client.close(PATIENCE).await);
    let both = [api("one", &server, "9/s"), api("two", &server, "9/s")];
    client.reload(both).expect("valid");
    for name in ["one", "two"] {
        let refused = client.get(name, "/").send().await.expect_err("closed");
        let cause = refused.refusal().map(|why| &why.cause);
        assert_eq!(cause, Some(&RefusalReason::ShuttingDown), "{name}");
    }
    assert_eq!(server.api().audit().count(), 0);
}

// The second API of each list cannot be called: the change of the first does not happen either.
#[tokio::test]
async fn a_mistake_in_one_api_changes_no_other() {
    let server = server(Duration::ZERO).await;
    let client = Outflow::init([api("one", &server, "1/h")]).expect("valid");
    assert_eq!(status(&client, "one").await, 200);
    let broken = |change: fn(&mut Api)| {
        let mut broken = api("two", &server, "1/h");
        change(&mut broken);
        broken
    };
    for wrong in [
        broken(|api| api.name = "one".into()),
        broken(|api| api.trust = TlsTrust::File("/no/such/file.pem".into())),
        broken(|api| api.rules.limits = vec![api.rules.limits[0]; 9]),
        broken(|api| {
            api.credential = Some(Credential {
                secret: "line\nend".to_owned().into(),
                place: CredentialPlacement::Bearer,
            });
        }),
    ] {
        let refused = client.reload([api("one", &server, "9/h"), wrong]);
        assert_eq!(refused.expect_err("wrong").count(), 1);
        assert!(client.upstream("two").is_none());
        let door = client.upstream("one").expect("there");
        let ask = door.route(&http::Method::GET, "/");
        assert!(door.try_acquire(ask).is_err(), "one an hour, still");
    }
    let page = client.metrics().expect("metrics").render();
    assert!(
        page.contains("outflow_reloads_total{result=\"refused\"} 4\n"),
        "{page}"
    );
    assert!(page.contains("outflow_reload_ok 0.0\n"), "{page}");
}

// The API moves while it sleeps: the door, and with it the state, is the same.
#[tokio::test]
async fn an_api_that_moves_keeps_its_door() {
    let (old, new) = (server(Duration::ZERO).await, server(Duration::ZERO).await);
    let client = Outflow::init([api("one", &old, "5/s")]).expect("valid");
    assert_eq!(status(&client, "one").await, 200);
    let door = client.upstream("one").expect("there");
    door.force_health(None, outflow::core::HealthOverride::Sleep);
    client.reload([api("one", &new, "5/s")]).expect("valid");
    let target = door.route(&http::Method::GET, "/");
    assert_eq!(
        client.upstream("one").expect("there").state(target),
        HealthState::Sleep
    );
    door.force_health(None, outflow::core::HealthOverride::Normal);
    assert_eq!(status(&client, "one").await, 200);
    assert_eq!(
        (old.api().audit().count(), new.api().audit().count()),
        (1, 1)
    );
}

fn configured(text: &str) -> Config {
    Config::read(&[Source::new("test.toml", text)], &Environment::empty()).expect("valid")
}

// A new API with a key, a louder log, and a cache elsewhere: the key is in no line, the metrics know the
// API, the level holds at once, and the cache's directory is named as what has to wait.
#[tokio::test]
async fn what_runs_beside_the_client_follows_as_far_as_it_can() {
    let server = server(Duration::ZERO).await;
    let dir = tempfile::tempdir().expect("a directory");
    let log = dir.path().join("outflow.log");
    let text = |level: &str, more: &str| {
        format!(
            "[log]\nlevel = \"{level}\"\nfile = \"{}\"\n[apis.one]\nbase_url = \"{}\"\n{more}",
            log.display(),
            server.url()
        )
    };
    std::fs::write(dir.path().join("key"), "CANARY-1234").expect("written");
    let client = Outflow::init(configured(&text("error", ""))).expect("valid");
    assert_eq!(status(&client, "one").await, 200);
    let more = format!(
        "[apis.two]\nbase_url = \"{}\"\napi_key_file = \"{}/key\"\n[cache]\nsize = \"1MiB\"\n",
        server.url(),
        dir.path().display()
    );
    let changes = client
        .reload(configured(&text("debug", &more)))
        .expect("valid");
    let expected = ReloadChanges {
        added: names(&["two"]),
        restart: vec!["cache.size".to_owned()],
        ..ReloadChanges::default()
    };
    assert_eq!(changes, expected);
    assert_eq!(status(&client, "two").await, 200);
    let called = client.get("two", "/CANARY-1234").send().await;
    assert_eq!(called.expect("an answer").status(), 200);
    let page = client.metrics().expect("metrics").render();
    assert!(
        page.contains("external_requests_total{api=\"two\"} 2\n"),
        "{page}"
    );
    assert!(page.contains("concurrency_current{api=\"two\"}"), "{page}");
    assert!(client.close(PATIENCE).await);
    let lines = std::fs::read_to_string(&log).expect("a log");
    assert!(
        lines.contains("event=reload reason=applied count=1"),
        "{lines}"
    );
    assert!(
        lines.contains("api=two") && !lines.contains("CANARY"),
        "{lines}"
    );
    assert!(
        !lines.contains("event=request api=one"),
        "the level was error then: {lines}"
    );
}

// Twenty calls at a time while the limits, the retries and the base URL's twin alternate a hundred times.
#[tokio::test]
async fn no_call_fails_because_of_a_reload() {
    let (one, other) = (server(Duration::ZERO).await, server(Duration::ZERO).await);
    let client = Outflow::init([api("one", &one, "100000/s")]).expect("valid");
    for turn in 0..100_u32 {
        let server = if turn % 2 == 0 { &other } else { &one };
        let mut next = api(
            "one",
            server,
            if turn % 3 == 0 { "90000/s" } else { "100000/s" },
        );
        next.retry.count = turn % 4;
        let calls = async {
            for _ in 0..5 {
                let four = tokio::join!(
                    status(&client, "one"),
                    status(&client, "one"),
                    status(&client, "one"),
                    status(&client, "one")
                );
                assert_eq!(four, (200, 200, 200, 200));
            }
        };
        let reload = async {
            tokio::task::yield_now().await;
            client.reload([next]).expect("valid");
        };
        tokio::join!(calls, reload);
    }
    assert_eq!(
        one.api().audit().count() + other.api().audit().count(),
        2_000
    );
    let door = client.upstream("one").expect("there");
    assert!(door.is_idle());
    let used = door.report().limits[0].usage.weight;
    assert!(used <= 2_000, "{used}");
}
