//! More attempts to break the client and the door.
#![allow(
    dead_code,
    unreachable_pub,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "reproductions"
)]

#[path = "http/support.rs"]
mod http_support;
mod support;

use std::future::Future;
use std::io::Write;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;

use http::{HeaderMap, HeaderName, HeaderValue};
use http_support::{eager, over_pipes, over_sockets, scripted};
use outflow::core::{Limit, State};
use outflow::{Answer, Ask, Events, Group, Outflow, Route, Rules, SystemClock, Trust, Upstream};
use outflow_upstream::{Act, Answer as Says, Content, Script, Tls, When};
use support::{World, by_sending, ms, parsed, rules, secs};

fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
    let pair = |(name, value): &(&'static str, &str)| {
        (
            HeaderName::from_static(name),
            HeaderValue::from_str(value).unwrap(),
        )
    };
    pairs.iter().map(pair).collect()
}

// GitHub's primary limit: 403, nothing left, a reset, and no Retry-After. These are signs of a limit.
#[test]
fn rev1_a_403_with_nothing_left_is_a_ban() {
    let world = World::new(rules(vec![by_sending("5000/h")]));
    let reset = (1_699_999_980_u64 + 1_800).to_string();
    for _ in 0..2 {
        let mut permit = world.caller(world.ask()).admitted();
        permit.sending();
        let headers = headers(&[
            ("x-ratelimit-limit", "5000"),
            ("x-ratelimit-remaining", "0"),
            ("x-ratelimit-used", "5000"),
            ("x-ratelimit-reset", &reset),
        ]);
        let verdict = permit.settle(Answer::response(403, &headers));
        println!("{verdict:?} {:?}", world.door.state(world.group("default")));
        if world.door.state(world.group("default")) == State::Sleep {
            return;
        }
    }
    let next = world.door.try_admit(world.ask());
    assert!(
        next.is_err(),
        "the server said that nothing is left until the reset"
    );
}

// `/%6frders/1` is `/orders/1` to every server: it counts in its group.
#[tokio::test(start_paused = true)]
async fn rev1_an_encoded_path_counts_in_its_group() {
    let strict = scripted(Script::new());
    let client = over_pipes(&strict, |api| {
        api.rules.groups = vec![Group::new("orders", vec![Limit::sliding(parsed("1/m"))])];
        api.rules.routes = vec![Route {
            methods: Vec::new(),
            pattern: "/orders/**".parse().unwrap(),
            group: "orders".into(),
            cost: None,
        }];
    });
    let mut went = 0;
    for path in [
        "/orders/1",
        "/%6frders/1",
        "/orders%2F1",
        "/orders//1",
        "/orders/1?x=2",
    ] {
        let answer = client.get("strict", path).max_wait(secs(1)).send().await;
        println!(
            "{path}: {:?}",
            answer
                .as_ref()
                .map(outflow::Response::status)
                .map_err(ToString::to_string)
        );
        went += usize::from(answer.is_ok());
    }
    assert_eq!(went, 1, "one a minute");
}

// HTTP/2: a call that is dropped after it left gives its place back, the connection lives on, and a
// POST that met a reset is not repeated.
#[tokio::test]
async fn rev1_http2_cancel_and_retry() {
    let strict = scripted(
        Script::new()
            .rule(When::path("/slow"), Act::Late(secs(5)))
            .rule(When::path("/fail"), Says::status(503)),
    );
    let server = strict.listen_tls(Tls::Good).await.unwrap();
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(server.ca_pem().unwrap().as_bytes()).unwrap();
    let mut api = eager(&server.url());
    api.trust = Trust::File(file.path().to_owned());
    let client = Outflow::init([api]).unwrap();
    client.get("strict", "/").send().await.unwrap();
    let slow = tokio::time::timeout(ms(200), client.get("strict", "/slow").send()).await;
    assert!(slow.is_err());
    assert!(client.upstream("strict").unwrap().is_idle());
    assert_eq!(
        client
            .get("strict", "/fail")
            .send()
            .await
            .unwrap()
            .attempts(),
        3
    );
    assert_eq!(
        client
            .post("strict", "/fail")
            .body("x")
            .send()
            .await
            .unwrap()
            .attempts(),
        1
    );
    let audit = strict.audit();
    assert_eq!(audit.attempts("/slow"), 1);
    let first = audit.arrivals()[0].connection;
    assert!(audit.arrivals().iter().all(|one| one.connection == first));
}

// Every poll point of a POST, of a streamed answer, over HTTP/1.1 with a slow server.
#[tokio::test(start_paused = true)]
async fn rev1_other_paths_can_be_dropped_at_every_point() {
    let drip = Says::ok("").content(Content::Drip {
        bytes: "0123456789".into(),
        every: ms(100),
    });
    let strict = scripted(
        Script::new()
            .rule(When::path("/drip"), drip)
            .rule(When::path("/fail").first(2), Says::status(503)),
    );
    let client = over_pipes(&strict, |api| {
        api.rules = Rules::limited_to(parsed("5/s"));
        api.rules.adaptive = outflow::core::Adaptive::Off;
        api.rules.health = support::health(|s| s.concurrency = 3);
    });
    for shape in 0..4 {
        for polls in 0..60 {
            let work = async {
                match shape {
                    0 => drop(
                        client
                            .post("strict", "/fail")
                            .body(vec![7; 300_000])
                            .idempotent()
                            .send()
                            .await,
                    ),
                    1 => drop(client.get("strict", "/drip").send().await),
                    2 => {
                        let mut body = client
                            .get("strict", "/drip")
                            .send_streaming()
                            .await
                            .unwrap()
                            .stream();
                        while let Some(Ok(_)) = body.chunk().await {}
                    }
                    _ => {
                        let body = http_body_util::Full::new(bytes::Bytes::from_static(b"hello"));
                        drop(
                            client
                                .post("strict", "/")
                                .stream(body)
                                .send_streaming()
                                .await,
                        );
                    }
                }
            };
            let (mut work, mut left) = (pin!(work), polls);
            let over = std::future::poll_fn(|cx| {
                if left == 0 {
                    return Poll::Ready(false);
                }
                left -= 1;
                work.as_mut().poll(cx).map(|()| true)
            })
            .await;
            if over {
                break;
            }
            drop(Box::new(()));
        }
        tokio::time::sleep(secs(1)).await;
    }
    tokio::time::sleep(secs(30)).await;
    let door = client.upstream("strict").unwrap();
    assert!(door.is_idle(), "{:?}", door.report());
    assert_eq!(door.report().waiting, 0);
}

// A body that is read over sockets after its client is gone.
#[tokio::test]
async fn rev1_a_body_outlives_its_client_over_sockets() {
    let drip = Says::ok("").content(Content::Drip {
        bytes: "0123456789".into(),
        every: ms(20),
    });
    let strict = scripted(Script::new().rule(When::always(), drip));
    let server = strict.listen().await.unwrap();
    let client = over_sockets(&server, |_| {});
    let head = client.get("strict", "/").send_streaming().await.unwrap();
    drop(client);
    assert_eq!(head.bytes().await.expect("all of it"), "0123456789");
}

// The last of a door ends in the timer's thread, and an observer's own end is a panic: the timer of
// all other doors must live on.
struct Fragile {
    inside: Arc<AtomicBool>,
    let_go: Arc<AtomicBool>,
}

impl outflow::Observer for Fragile {
    fn observe(&self, event: &outflow::Event) {
        if matches!(event.what, outflow::event::What::Refused { .. }) {
            self.inside.store(true, Ordering::SeqCst);
            while !self.let_go.load(Ordering::SeqCst) {
                std::thread::yield_now();
            }
        }
    }
}

impl Drop for Fragile {
    fn drop(&mut self) {
        panic!("an observer that ends badly");
    }
}

#[test]
fn rev1_the_timer_survives_the_end_of_an_observer() {
    let clock = || Arc::new(SystemClock::new());
    let (inside, let_go) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicBool::new(false)),
    );
    let one = Rules {
        health: support::health(|s| s.concurrency = 1),
        ..rules(vec![])
    };
    {
        let events = Events::new();
        events.subscribe(Arc::new(Fragile {
            inside: Arc::clone(&inside),
            let_go: Arc::clone(&let_go),
        }));
        let door = Upstream::new("fragile", one, clock(), events).unwrap();
        let target = door.route(&http::Method::GET, "/");
        let held = door.try_admit(Ask::new(target)).unwrap();
        let mut late = Box::pin(door.admit(Ask::new(target).by(door.now().saturating_add(ms(20)))));
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(late.as_mut().poll(&mut context).is_pending());
        while !inside.load(Ordering::SeqCst) {
            std::thread::yield_now();
        }
        drop(held);
        drop(late);
        drop(door);
    }
    let_go.store(true, Ordering::SeqCst);
    std::thread::sleep(ms(100));
    let door = Upstream::new(
        "other",
        rules(vec![by_sending("1/50ms")]),
        clock(),
        Events::new(),
    )
    .unwrap();
    let target = door.route(&http::Method::GET, "/");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        door.admit(Ask::new(target)).await.unwrap().sending();
        let second = tokio::time::timeout(secs(2), door.admit(Ask::new(target))).await;
        assert!(second.is_ok(), "the timer of the whole process is dead");
    });
}

// A total outage of a minute at twenty calls a second, with the usual health; then all is well again.
#[tokio::test(start_paused = true)]
async fn rev1_goodput_comes_back_within_half_a_minute() {
    let mut over = Vec::new();
    for profile in ["adaptive", "breaker"] {
        let strict = scripted(Script::new().rule(
            When::always().between(secs(10)..secs(70)),
            Says::status(503),
        ));
        let client = over_pipes(&strict, |api| {
            api.rules.limits = vec![Limit::sliding(parsed("100/s"))];
            api.rules.health = if profile == "breaker" {
                outflow::core::HealthConfig::new(outflow::core::HealthSettings::BREAKER).unwrap()
            } else {
                outflow::core::HealthConfig::default()
            };
        });
        let began = tokio::time::Instant::now();
        let mut good = [0_u32; 30];
        let mut calls = 0;
        while began.elapsed() < secs(140) {
            let at = began.elapsed();
            let answer = client.get("strict", "/").max_wait(ms(10)).send().await;
            calls += 1;
            if answer.is_ok_and(|answer| answer.status() == 200) {
                good[usize::try_from(at.as_secs() / 5).unwrap()] += 1;
            }
            tokio::time::sleep(ms(50).saturating_sub(began.elapsed() - at)).await;
        }
        let during = strict
            .audit()
            .only(|one| (10..70).contains(&(one.at.as_nanos() / 1_000_000_000)))
            .count();
        println!(
            "{profile}: good per 5 s {good:?}, {during} arrived in the outage, {calls} calls, state {:?}",
            client.upstream("strict").unwrap().report().health[0]
                .snapshot
                .state
        );
        if during > 60 * 20 * 12 / 10 + 600 {
            over.push((profile, during));
        }
        let share = f64::from(good[20]) / 100.0;
        assert!(
            share >= 0.95,
            "{profile}: {share} of the goodput 30 s after healing, per 5 s: {good:?}"
        );
    }
    assert!(
        over.is_empty(),
        "more than 1.2 x calls + 10/s arrived: {over:?}"
    );
}
