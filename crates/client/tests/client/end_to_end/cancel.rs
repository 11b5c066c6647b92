//! Calls dropped at every poll, on every path through the client.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use outflow::core::Backoff;
use outflow::{Api, CacheMode, Error, Outflow, Rules};
use outflow_mock::{Content, MockApi, MockResponse, Script, ScriptMatch, Tls};
use outflow_testkit::{Background, LinkLatency, PollPoints, Run};

use super::support::{TestBed, in_flight, report};

const SECOND: Duration = Duration::from_secs(1);
const WAY: Duration = Duration::from_millis(5);

/// Three calls a second, as checked against the server's audit.
const MOST: u64 = 3;

fn limited(api: &mut Api) {
    api.rules = Rules::with_limit("3/s".parse().expect("valid"));
    let moment = Duration::from_millis(20);
    api.retry.backoff = Backoff::full_jitter(moment, moment).expect("valid");
}

/// A path through the client: the server's script, the preparation, and the call.
struct CallPath {
    name: &'static str,
    script: fn() -> Script,
    link: LinkLatency,
    before: fn(&Outflow) -> Vec<Background<()>>,
    call: AsyncCall,
}

type AsyncCall = fn(&Outflow) -> std::pin::Pin<Box<dyn Future<Output = Result<(), Error>> + Send>>;

fn paths() -> Vec<CallPath> {
    let plain = |name, call| CallPath {
        name,
        script: Script::new,
        link: LinkLatency::from_delay(WAY),
        before: |_| Vec::new(),
        call,
    };
    let mut slow = LinkLatency::from_delay(WAY);
    slow.there.bandwidth = std::num::NonZeroU64::new(1_000_000);
    slow.there.segment = std::num::NonZeroUsize::new(8 * 1024);
    vec![
        plain("connecting, sending and waiting for the head", boxed_call),
        CallPath {
            before: |client| (0..MOST).map(|_| background_call(client, "/before")).collect(),
            ..plain("waiting in line", boxed_call)
        },
        CallPath {
            link: slow,
            ..plain("sending a body", |client| {
                let call = client.put("strict", "/upload").body(vec![7_u8; 100_000]);
                Box::pin(async move { call.send().await.map(drop) })
            })
        },
        CallPath {
            link: slow,
            ..plain("sending a stream", |client| {
                let body = Full::new(Bytes::from(vec![7_u8; 100_000]));
                let call = client.put("strict", "/upload").stream(body);
                Box::pin(async move { call.send().await.map(drop) })
            })
        },
        CallPath {
            script: dripping,
            ..plain("reading a body", boxed_call)
        },
        CallPath {
            script: dripping,
            ..plain("streaming a body", |client| {
                let call = client.get("strict", "/a");
                Box::pin(async move {
                    let mut body = call.send_streaming().await?.stream();
                    while let Some(piece) = body.chunk().await {
                        piece?;
                    }
                    Ok(())
                })
            })
        },
        CallPath {
            script: || Script::new().rule(ScriptMatch::always().first(1), MockResponse::status(503)),
            ..plain("between two attempts", boxed_call)
        },
        CallPath {
            script: || Script::new().rule(ScriptMatch::path("/a"), MockResponse::redirect(302, "/b")),
            ..plain("following a redirect", boxed_call)
        },
        CallPath {
            before: |client| vec![background_call(client, "/a")],
            ..plain("following an equal call", boxed_call)
        },
    ]
}

fn dripping() -> Script {
    let content = Content::Drip {
        bytes: "12345678".into(),
        every: WAY,
    };
    Script::new().rule(ScriptMatch::path("/a"), MockResponse::ok("").content(content))
}

fn boxed_call(client: &Outflow) -> std::pin::Pin<Box<dyn Future<Output = Result<(), Error>> + Send>> {
    let call = client.get("strict", "/a");
    Box::pin(async move { call.send().await.map(drop) })
}

fn background_call(client: &Outflow, path: &str) -> Background<()> {
    let call = client.get("strict", path);
    Background::start(async move {
        call.send().await.expect("the test does not drop this call");
    })
}

/// Drops the call of this path at every poll, with or without the cache, and checks the remains
/// each time. Returns the number of polls to completion.
async fn drop_at_every_poll(path: &CallPath, cache: CacheMode) -> u32 {
    let mut points = PollPoints::new();
    while let Some(point) = points.next_point() {
        let bed = TestBed::new(MockApi::builder().build().expect("valid"), WAY);
        bed.net.set_link(path.link);
        bed.mock.rewrite((path.script)());
        let client = bed.client(|api| {
            limited(api);
            api.cache = cache;
        });
        let others = (path.before)(&client);
        tokio::task::yield_now().await;
        let run = point.drive((path.call)(&client)).await;
        if let Run::Finished { output, .. } = &run {
            assert!(output.is_ok(), "{}: {output:?}", path.name);
        }
        for other in others {
            other.join().await;
        }
        assert_nothing_left(&bed, &client, &format!("{} at {point:?}", path.name)).await;
        points.record(&run);
    }
    points.polls_to_finish().expect("it finished")
}

/// Asserts that nothing is held, that sent attempts still count, and that their quota returns.
async fn assert_nothing_left(bed: &TestBed, client: &Outflow, what: &str) {
    assert_eq!((in_flight(client), report(client).waiting), (0, 0), "{what}");
    for _ in 0..2 * MOST {
        let next = client.get("strict", "/next").send().await;
        assert!(next.is_ok(), "{what}: {next:?}");
    }
    let most = bed.mock.audit().most_in_any_window(SECOND);
    assert!(most <= MOST, "{what}: {most} in a second");
    // An abandoned attempt may arrive until its timeout of ten seconds.
    tokio::time::sleep(12 * SECOND).await;
    for _ in 0..MOST {
        let call = client.get("strict", "/later").cache(outflow::CacheDirective::Bypass);
        let next = call.send().await.expect("room for all");
        assert_eq!(next.waited(), Duration::ZERO, "{what}");
    }
    assert_eq!((in_flight(client), report(client).waiting), (0, 0), "{what}");
}

// A path that finished at its first poll would never have been dropped.
#[tokio::test(start_paused = true)]
async fn a_call_dropped_at_any_poll_leaves_nothing_behind() {
    for path in paths() {
        let polls = drop_at_every_poll(&path, CacheMode::Off).await;
        assert!(polls >= 3, "{}: {polls} polls", path.name);
    }
}

#[tokio::test(start_paused = true)]
async fn a_cached_call_dropped_at_any_poll_leaves_nothing_behind() {
    for path in paths() {
        let polls = drop_at_every_poll(&path, CacheMode::Force(SECOND)).await;
        assert!(polls >= 2, "{}: {polls} polls", path.name);
    }
}

// The leader is dropped at every poll while four calls follow: another takes over, with at most
// one more request.
#[tokio::test(start_paused = true)]
async fn followers_outlive_their_leader() {
    let mut points = PollPoints::new();
    while let Some(point) = points.next_point() {
        let bed = TestBed::new(MockApi::builder().build().expect("valid"), WAY);
        let client = bed.client(|api| api.cache = CacheMode::Force(SECOND));
        let others = async {
            tokio::task::yield_now().await;
            let others: Vec<_> = (0..4).map(|_| background_call(&client, "/a")).collect();
            for other in others {
                other.join().await;
            }
        };
        let (run, ()) = tokio::join!(point.drive(boxed_call(&client)), others);
        assert!(bed.mock.audit().count() <= 2, "{point:?}");
        assert_eq!((in_flight(&client), report(&client).waiting), (0, 0), "{point:?}");
        points.record(&run);
    }
}

// In real time, because TLS runs over sockets here; nothing is timed.
#[tokio::test]
async fn a_call_dropped_in_its_handshake_leaves_nothing_behind() {
    let mock = MockApi::builder().build().expect("valid");
    let server = mock.listen_tls(Tls::Good).await.expect("a port");
    let mut points = PollPoints::new();
    while let Some(point) = points.next_point() {
        let mut api = Api::new("strict", server.url().parse().expect("a URL"));
        api.rules = Rules::unlimited();
        api.trust = outflow::TlsTrust::AnyCertificate;
        let client = Outflow::builder().api(api).build().expect("valid");
        let run = point.drive(boxed_call(&client)).await;
        assert_eq!((in_flight(&client), report(&client).waiting), (0, 0), "{point:?}");
        client.get("strict", "/next").send().await.expect("goes");
        points.record(&run);
    }
    assert!(points.polls_to_finish() >= Some(3));
}
