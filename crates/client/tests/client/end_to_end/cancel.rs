//! A call dropped wherever it can be dropped, on every path it can take.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use outflow::core::Backoff;
use outflow::{Api, CacheMode, Error, Outflow, Rules};
use outflow_mock::{Content, MockApi, MockResponse, Script, ScriptMatch, Tls};
use outflow_testkit::{Background, LinkLatency, PollPoints, Run};

use super::support::{World, in_flight, report};

const SECOND: Duration = Duration::from_secs(1);
const WAY: Duration = Duration::from_millis(5);

/// Three calls a second, as the server's audit will be asked about.
const MOST: u64 = 3;

fn limited(api: &mut Api) {
    api.rules = Rules::with_limit("3/s".parse().expect("valid"));
    let moment = Duration::from_millis(20);
    api.retry.backoff = Backoff::full_jitter(moment, moment).expect("valid");
}

/// A way through the client: what the server does, what happens before, and the call.
struct Path {
    name: &'static str,
    script: fn() -> Script,
    link: LinkLatency,
    before: fn(&Outflow) -> Vec<Background<()>>,
    call: AsyncCall,
}

type AsyncCall = fn(&Outflow) -> std::pin::Pin<Box<dyn Future<Output = Result<(), Error>> + Send>>;

fn paths() -> Vec<Path> {
    let plain = |name, call| Path {
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
        plain("connecting, sending and waiting for the head", got),
        Path {
            before: |client| (0..MOST).map(|_| beside(client, "/before")).collect(),
            ..plain("waiting in line", got)
        },
        Path {
            link: slow,
            ..plain("sending a body", |client| {
                let call = client.put("strict", "/upload").body(vec![7_u8; 100_000]);
                Box::pin(async move { call.send().await.map(drop) })
            })
        },
        Path {
            link: slow,
            ..plain("sending a stream", |client| {
                let body = Full::new(Bytes::from(vec![7_u8; 100_000]));
                let call = client.put("strict", "/upload").stream(body);
                Box::pin(async move { call.send().await.map(drop) })
            })
        },
        Path {
            script: dripping,
            ..plain("reading a body", got)
        },
        Path {
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
        Path {
            script: || {
                Script::new().rule(ScriptMatch::always().first(1), MockResponse::status(503))
            },
            ..plain("between two attempts", got)
        },
        Path {
            script: || {
                Script::new().rule(ScriptMatch::path("/a"), MockResponse::redirect(302, "/b"))
            },
            ..plain("following a redirect", got)
        },
        Path {
            before: |client| vec![beside(client, "/a")],
            ..plain("following an equal call", got)
        },
    ]
}

fn dripping() -> Script {
    let content = Content::Drip {
        bytes: "12345678".into(),
        every: WAY,
    };
    Script::new().rule(
        ScriptMatch::path("/a"),
        MockResponse::ok("").content(content),
    )
}

fn got(client: &Outflow) -> std::pin::Pin<Box<dyn Future<Output = Result<(), Error>> + Send>> {
    let call = client.get("strict", "/a");
    Box::pin(async move { call.send().await.map(drop) })
}

fn beside(client: &Outflow, path: &str) -> Background<()> {
    let call = client.get("strict", path);
    Background::start(async move {
        call.send().await.expect("nobody drops this one");
    })
}

/// Drops the call of this path at every point, with the cache or without, and looks at what is left
/// each time. Answers how many polls it took to finish.
async fn dropped_everywhere(path: &Path, cache: CacheMode) -> u32 {
    let mut points = PollPoints::new();
    while let Some(point) = points.next_point() {
        let world = World::new(MockApi::builder().build().expect("valid"), WAY);
        world.net.set_link(path.link);
        world.strict.rewrite((path.script)());
        let client = world.client(|api| {
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
        left_behind(&world, &client, &format!("{} at {point:?}", path.name)).await;
        points.record(&run);
    }
    points.polls_to_finish().expect("it finished")
}

/// Nothing is held, what was sent still counts, and what it took comes back.
async fn left_behind(world: &World, client: &Outflow, what: &str) {
    assert_eq!(
        (in_flight(client), report(client).waiting),
        (0, 0),
        "{what}"
    );
    for _ in 0..2 * MOST {
        let next = client.get("strict", "/next").send().await;
        assert!(next.is_ok(), "{what}: {next:?}");
    }
    let most = world.strict.audit().most_in_any_window(SECOND);
    assert!(most <= MOST, "{what}: {most} in a second");
    // An attempt that was given up may arrive until its timeout of ten seconds.
    tokio::time::sleep(12 * SECOND).await;
    for _ in 0..MOST {
        let call = client
            .get("strict", "/later")
            .cache(outflow::CacheDirective::Bypass);
        let next = call.send().await.expect("room for all");
        assert_eq!(next.waited(), Duration::ZERO, "{what}");
    }
    assert_eq!(
        (in_flight(client), report(client).waiting),
        (0, 0),
        "{what}"
    );
}

// A path that finished at its first poll would not have been dropped anywhere.
#[tokio::test(start_paused = true)]
async fn a_call_dropped_anywhere_leaves_nothing_behind() {
    for path in paths() {
        let polls = dropped_everywhere(&path, CacheMode::Off).await;
        assert!(polls >= 3, "{}: {polls} polls", path.name);
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_with_a_cache_dropped_anywhere_leaves_nothing_behind() {
    for path in paths() {
        let polls = dropped_everywhere(&path, CacheMode::Force(SECOND)).await;
        assert!(polls >= 2, "{}: {polls} polls", path.name);
    }
}

// The one who leads is dropped at every point while four follow: another takes over, and all four
// are answered by one request more at most.
#[tokio::test(start_paused = true)]
async fn followers_outlive_whoever_leads() {
    let mut points = PollPoints::new();
    while let Some(point) = points.next_point() {
        let world = World::new(MockApi::builder().build().expect("valid"), WAY);
        let client = world.client(|api| api.cache = CacheMode::Force(SECOND));
        let others = async {
            tokio::task::yield_now().await;
            let others: Vec<_> = (0..4).map(|_| beside(&client, "/a")).collect();
            for other in others {
                other.join().await;
            }
        };
        let (run, ()) = tokio::join!(point.drive(got(&client)), others);
        assert!(world.strict.audit().count() <= 2, "{point:?}");
        assert_eq!(
            (in_flight(&client), report(&client).waiting),
            (0, 0),
            "{point:?}"
        );
        points.record(&run);
    }
}

// In real time, because TLS is spoken over sockets here; nothing is timed.
#[tokio::test]
async fn a_call_dropped_in_its_handshake_leaves_nothing_behind() {
    let strict = MockApi::builder().build().expect("valid");
    let server = strict.listen_tls(Tls::Good).await.expect("a port");
    let mut points = PollPoints::new();
    while let Some(point) = points.next_point() {
        let mut api = Api::new("strict", server.url().parse().expect("a URL"));
        api.rules = Rules::unlimited();
        api.trust = outflow::TlsTrust::AnyCertificate;
        let client = Outflow::builder().api(api).build().expect("valid");
        let run = point.drive(got(&client)).await;
        assert_eq!(
            (in_flight(&client), report(&client).waiting),
            (0, 0),
            "{point:?}"
        );
        client.get("strict", "/next").send().await.expect("goes");
        points.record(&run);
    }
    assert!(points.polls_to_finish() >= Some(3));
}
