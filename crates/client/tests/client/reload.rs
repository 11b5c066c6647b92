//! A client that is reconfigured while its calls go on, over real sockets.

#![allow(
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test may stop at the first surprise, in its helpers too"
)]

use std::sync::Arc;
use std::time::Duration;

use outflow::config::{Environment, Source};
use outflow::core::{Backoff, HealthState, RetryBudgetSettings, Share};
use outflow::{
    Api, Config, Credential, CredentialPlacement, Group, Outflow, RefusalReason, ReloadChanges, Rules, TlsTrust,
};
use outflow_mock::{Latency, MockApi, MockResponse, Server};
use outflow_testkit::VirtualTime;

const PATIENCE: Duration = Duration::from_secs(10);

async fn server(delay: Duration) -> Server {
    let api = MockApi::builder()
        .answer("/**", MockResponse::ok("{}"))
        .delay(Latency::Fixed(delay), Latency::None)
        .build()
        .expect("valid");
    api.listen().await.expect("a port")
}

/// Configures an API with this limit and a longest wait of an hour.
fn api(name: &str, server: &Server, rate: &str) -> Api {
    let mut api = Api::new(name, server.url().parse().expect("a URL"));
    api.rules = Rules::with_limit(rate.parse().expect("a rate"));
    api.rules.max_wait = Duration::from_hours(2);
    api
}

async fn status(client: &Outflow, api: &str) -> u16 {
    let response = client.get(api, "/").send().await;
    response.expect("a response").status().as_u16()
}

fn names(list: &[&str]) -> Vec<smol_str::SmolStr> {
    list.iter().map(smol_str::SmolStr::new).collect()
}

// One an hour is used; with two, the waiting call goes at once, and a third does not.
#[tokio::test]
async fn a_raised_limit_releases_a_waiting_call_and_counts_earlier_use() {
    let server = server(Duration::ZERO).await;
    let client = Outflow::init([api("one", &server, "1/h")]).expect("valid");
    assert_eq!(status(&client, "one").await, 200);
    let waits = status(&client, "one");
    let reload = async {
        let upstream = client.upstream("one").expect("there");
        while upstream.report().waiting == 0 {
            tokio::task::yield_now().await;
        }
        client.reload([api("one", &server, "2/h")]).expect("valid")
    };
    let (code, changes) = tokio::join!(waits, reload);
    assert_eq!((code, changes.changed), (200, names(&["one"])));
    let upstream = client.upstream("one").expect("there");
    let third = upstream.try_acquire(upstream.route(&http::Method::GET, "/"));
    assert!(third.is_err(), "two in all");
    assert_eq!(server.api().audit().count(), 2);
}

// One call is in flight at a slow server, and one waits for the next hour when their API is
// removed. The first ends normally, the second is refused with the reason.
#[tokio::test]
async fn a_removed_api_refuses_waiting_calls_and_finishes_calls_in_flight() {
    let server = server(Duration::from_millis(300)).await;
    let kept = || api("kept", &server, "9/s");
    let client = Outflow::init([api("gone", &server, "1/h"), kept()]).expect("valid");
    let reload = async {
        let upstream = client.upstream("gone").expect("there");
        while upstream.report().waiting == 0 {
            tokio::task::yield_now().await;
        }
        client.reload([kept()]).expect("valid")
    };
    let (in_flight, waits, changes) = tokio::join!(status(&client, "gone"), client.get("gone", "/").send(), reload);
    assert_eq!(in_flight, 200);
    let refusal = waits.expect_err("it may not go");
    assert_eq!(refusal.refusal().map(|why| &why.reason), Some(&RefusalReason::Removed));
    assert_eq!(changes.removed, names(&["gone"]));
    let unknown = client.get("gone", "/").send().await.expect_err("unknown");
    assert!(unknown.to_string().contains("gone"), "{unknown}");
    assert_eq!(status(&client, "kept").await, 200);
}

// Its only call of this hour is used before the removal, and still is after the return.
#[tokio::test]
async fn a_returning_api_keeps_its_used_quota() {
    let server = server(Duration::ZERO).await;
    let client = Outflow::init([api("one", &server, "1/h")]).expect("valid");
    assert_eq!(status(&client, "one").await, 200);
    client.reload(Vec::new()).expect("valid");
    let changes = client.reload([api("one", &server, "1/h")]).expect("valid");
    assert_eq!(changes.added, names(&["one"]));
    let upstream = client.upstream("one").expect("there");
    let target = upstream.route(&http::Method::GET, "/");
    let refusal = upstream.try_acquire(target).expect_err("one an hour");
    assert!(matches!(refusal.reason, RefusalReason::Busy(_)), "{refusal:?}");
}

// Two calls earn one retry: the second call uses it, and the third earns half of the next. The
// fourth uses it if the half survived the API's absence.
#[tokio::test]
async fn a_returning_api_keeps_its_earned_retries() {
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

// One permit, then an absence. An hour later the API has its past again; after more than a day, and a reload
// that removes another API, nothing is left of it.
#[tokio::test(start_paused = true)]
async fn a_removed_api_is_remembered_for_a_day() {
    let server = server(Duration::ZERO).await;
    let (one, other) = (|| api("one", &server, "10/h"), || api("other", &server, "10/h"));
    let client = Outflow::builder().timer(Arc::new(VirtualTime::new())).api(one());
    let client = client.build().expect("valid");
    let upstream = client.upstream("one").expect("there");
    let permit = upstream.try_acquire(upstream.route(&http::Method::GET, "/"));
    drop(permit.expect("ten an hour"));
    for (absence, expected) in [(Duration::from_hours(1), 1), (Duration::from_hours(25), 0)] {
        client.reload([other()]).expect("valid");
        tokio::time::advance(absence).await;
        client.reload(Vec::new()).expect("valid");
        client.reload([one()]).expect("valid");
        let report = client.upstream("one").expect("there").report();
        let admitted: u64 = report.groups.iter().map(|group| group.admitted).sum();
        assert_eq!(admitted, expected, "after {absence:?}");
    }
}

// A program whose APIs and groups have another name with each deployment. Series stay for one reload, so that
// a last scrape finds them, and the series of what stays keep their counts.
#[tokio::test]
async fn series_of_removed_apis_and_groups_end_with_the_next_reload() {
    let server = server(Duration::ZERO).await;
    let deployed = |number: u32| {
        let mut one = api("one", &server, "9/s");
        let limit = one.rules.limits[0];
        one.rules.groups = vec![Group::new(&format!("group-{number}"), vec![limit])];
        [one, api(&format!("api-{number}"), &server, "9/s")]
    };
    let client = Outflow::init(Vec::from(deployed(0))).expect("valid");
    assert_eq!(status(&client, "one").await, 200);
    for number in 1..=9 {
        client.reload(deployed(number)).expect("valid");
    }
    let page = client.metrics().expect("metrics").render();
    for (number, is_there) in [(9, true), (8, true), (7, false), (0, false)] {
        assert_eq!(
            page.contains(&format!("\"api-{number}\"")),
            is_there,
            "{number}: {page}"
        );
        assert_eq!(
            page.contains(&format!("\"group-{number}\"")),
            is_there,
            "{number}: {page}"
        );
    }
    assert!(page.contains("external_requests_total{api=\"one\"} 1\n"), "{page}");
}

// A closing client sends nothing, also for an API that is new or returns.
#[tokio::test]
async fn an_api_added_while_the_client_closes_stays_closed() {
    let server = server(Duration::ZERO).await;
    let client = Outflow::init([api("one", &server, "9/s")]).expect("valid");
    client.reload(Vec::new()).expect("valid");
    assert!(client.close(PATIENCE).await);
    let both = [api("one", &server, "9/s"), api("two", &server, "9/s")];
    client.reload(both).expect("valid");
    for name in ["one", "two"] {
        let refused = client.get(name, "/").send().await.expect_err("closed");
        let cause = refused.refusal().map(|why| &why.reason);
        assert_eq!(cause, Some(&RefusalReason::ShuttingDown), "{name}");
    }
    assert_eq!(server.api().audit().count(), 0);
}

// The second API of each list is invalid: the first does not change either.
#[tokio::test]
async fn an_error_in_one_api_changes_no_other() {
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
        let upstream = client.upstream("one").expect("there");
        let target = upstream.route(&http::Method::GET, "/");
        assert!(upstream.try_acquire(target).is_err(), "one an hour, still");
    }
    let page = client.metrics().expect("metrics").render();
    assert!(page.contains("outflow_reloads_total{result=\"refused\"} 4\n"), "{page}");
    assert!(page.contains("outflow_reload_ok 0.0\n"), "{page}");
}

// The API moves while it sleeps: the upstream, and with it the state, stays.
#[tokio::test]
async fn an_api_that_moves_keeps_its_upstream() {
    let (old, new) = (server(Duration::ZERO).await, server(Duration::ZERO).await);
    let client = Outflow::init([api("one", &old, "5/s")]).expect("valid");
    assert_eq!(status(&client, "one").await, 200);
    let upstream = client.upstream("one").expect("there");
    upstream.force_health(None, outflow::core::HealthOverride::Sleep);
    client.reload([api("one", &new, "5/s")]).expect("valid");
    let target = upstream.route(&http::Method::GET, "/");
    assert_eq!(client.upstream("one").expect("there").state(target), HealthState::Sleep);
    upstream.force_health(None, outflow::core::HealthOverride::Normal);
    assert_eq!(status(&client, "one").await, 200);
    assert_eq!((old.api().audit().count(), new.api().audit().count()), (1, 1));
}

fn configured(text: &str) -> Config {
    Config::read(&[Source::new("test.toml", text)], &Environment::empty()).expect("valid")
}

// A new API with a key, a more verbose log, and another cache directory. No line contains the key,
// the metrics know the API, the level applies at once, and the directory is reported as pending.
#[tokio::test]
async fn background_services_apply_a_reload_as_far_as_possible() {
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
    let changes = client.reload(configured(&text("debug", &more))).expect("valid");
    let expected = ReloadChanges {
        added: names(&["two"]),
        restart: vec!["cache.size".to_owned()],
        ..ReloadChanges::default()
    };
    assert_eq!(changes, expected);
    assert_eq!(status(&client, "two").await, 200);
    let called = client.get("two", "/CANARY-1234").send().await;
    assert_eq!(called.expect("a response").status(), 200);
    let page = client.metrics().expect("metrics").render();
    assert!(page.contains("external_requests_total{api=\"two\"} 2\n"), "{page}");
    assert!(page.contains("concurrency_current{api=\"two\"}"), "{page}");
    assert!(client.close(PATIENCE).await);
    let lines = std::fs::read_to_string(&log).expect("a log");
    assert!(lines.contains("event=reload reason=applied count=1"), "{lines}");
    assert!(lines.contains("api=two") && !lines.contains("CANARY"), "{lines}");
    assert!(
        !lines.contains("event=request api=one"),
        "the level was error then: {lines}"
    );
}

// Twenty calls at a time while the limits, the retries and the base URL alternate a hundred times.
#[tokio::test]
async fn no_call_fails_because_of_a_reload() {
    let (one, other) = (server(Duration::ZERO).await, server(Duration::ZERO).await);
    let client = Outflow::init([api("one", &one, "100000/s")]).expect("valid");
    for turn in 0..100_u32 {
        let server = if turn % 2 == 0 { &other } else { &one };
        let mut next = api("one", server, if turn % 3 == 0 { "90000/s" } else { "100000/s" });
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
    assert_eq!(one.api().audit().count() + other.api().audit().count(), 2_000);
    let upstream = client.upstream("one").expect("there");
    assert!(upstream.is_idle());
    let used = upstream.report().limits[0].usage.weight;
    assert!(used <= 2_000, "{used}");
}
