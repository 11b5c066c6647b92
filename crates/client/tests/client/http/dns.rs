//! Name resolution, with resolvers that fail in every way.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use outflow::event::{EventKind, FailureLabel, StatusLabel};
use outflow::metrics::{ApiLabels, Metrics};
use outflow::{AddressPolicy, Api, Outflow, OutflowBuilder, Resolve, ResolveError, Resolving};
use outflow_mock::{MockResponse, Script, ScriptMatch};
use outflow_testkit::{EventRecorder, VirtualTime};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::Instant;

use super::support::{FnResolver, eager, scripted};

/// A resolver that never responds.
struct SilentResolver;

impl Resolve for SilentResolver {
    fn resolve(&self, _: &str) -> Resolving {
        Box::pin(std::future::pending())
    }
}

/// Builds a client of `api.example.com` at this port, with any address allowed.
fn named_client(port: u16, names: impl Resolve + 'static, adapt: impl FnOnce(&mut Api)) -> OutflowBuilder {
    let mut api = eager(&format!("http://api.example.com:{port}"));
    api.addresses = AddressPolicy::Any;
    api.retry.count = 0;
    adapt(&mut api);
    Outflow::builder().api(api).resolver(Arc::new(names))
}

/// Asserts the error and the event of a name that cannot be resolved.
async fn assert_resolve_error(names: impl Resolve + 'static, why: ResolveError) {
    let client = named_client(80, names, |api| {
        api.timeouts.connect = Duration::from_secs(1);
    });
    let client = client.timer(Arc::new(VirtualTime::new()));
    let client = client.build().expect("valid");
    let recorder = EventRecorder::subscribed_to(client.events());
    let metrics = Arc::new(Metrics::new([ApiLabels::new("strict", [])]));
    client.events().subscribe(metrics.clone());
    let error = client.get("strict", "/").send().await.expect_err("nowhere");
    assert_eq!(error.resolve_error(), Some(why));
    assert!(error.is_connect(), "{why:?}");
    let late = why == ResolveError::TimedOut;
    assert_eq!(error.is_timeout(), late, "{why:?}");
    let status = if late {
        StatusLabel::Timeout
    } else {
        StatusLabel::Network
    };
    let finished = recorder.finished().remove(0);
    assert_eq!(finished.status, status, "{why:?}");
    assert_eq!(finished.reason, Some(FailureLabel::Dns), "{why:?}");
    let is_reported = |what: &EventKind| matches!(what, EventKind::Unresolved { error } if *error == why);
    assert!(recorder.all().iter().any(|event| is_reported(&event.what)), "{why:?}");
    let page = metrics.render();
    for class in ResolveError::ALL {
        let (name, count) = (class.name(), u8::from(class == why));
        let line = format!("outflow_unresolved_total{{api=\"strict\",class=\"{name}\"}} {count}\n");
        assert!(page.contains(&line), "{why:?}: {page}");
    }
    let line = "external_failures_total{api=\"strict\",reason=\"dns\"} 1\n";
    assert!(page.contains(line), "{why:?}: {page}");
    assert!(client.upstream("strict").expect("there").is_idle());
}

#[tokio::test(start_paused = true)]
async fn each_resolve_failure_has_its_own_error() {
    let says = |response: Result<Vec<IpAddr>, ResolveError>| FnResolver(move |_: &str| response.clone());
    assert_resolve_error(says(Err(ResolveError::NoSuchName)), ResolveError::NoSuchName).await;
    assert_resolve_error(says(Err(ResolveError::ServerFailed)), ResolveError::ServerFailed).await;
    assert_resolve_error(says(Ok(Vec::new())), ResolveError::NoAddress).await;
    assert_resolve_error(SilentResolver, ResolveError::TimedOut).await;
}

// Of the second for connecting, a tenth is reserved for the connection itself.
#[tokio::test(start_paused = true)]
async fn a_silent_resolver_times_out_within_the_connect_timeout() {
    let client = named_client(80, SilentResolver, |api| {
        api.timeouts.connect = Duration::from_secs(1);
    });
    let client = client.timer(Arc::new(VirtualTime::new()));
    let client = client.build().expect("valid");
    let began = Instant::now();
    let error = client.post("strict", "/").send().await;
    assert!(error.expect_err("silent").is_timeout());
    assert_eq!(began.elapsed().as_millis(), 900);
}

// The resolver fails for the first attempt. Nothing left then, so even a POST is retried.
#[tokio::test]
async fn a_recovered_resolver_serves_the_retry() {
    let mock = scripted(Script::new());
    let server = mock.listen().await.expect("a port");
    let asked = AtomicUsize::new(0);
    let names = FnResolver(move |_: &str| match asked.fetch_add(1, Ordering::Relaxed) {
        0 => Err(ResolveError::ServerFailed),
        _ => Ok(vec![[127, 0, 0, 1].into()]),
    });
    let client = named_client(server.address().port(), names, |api| api.retry.count = 1);
    let client = client.build().expect("valid");
    let response = client.post("strict", "/").body("x").send().await;
    assert_eq!(response.expect("the second time").attempts(), 2);
}

// The name's owner points it at this machine, where a server listens.
#[tokio::test]
async fn a_name_with_a_private_address_is_refused() {
    let mock = scripted(Script::new());
    let server = mock.listen().await.expect("a port");
    let home = FnResolver(|_: &str| Ok(vec![[127, 0, 0, 1].into()]));
    let client = named_client(server.address().port(), home, |api| {
        api.addresses = AddressPolicy::Public;
    });
    let client = client.build().expect("valid");
    let error = client.get("strict", "/").send().await;
    let error = error.expect_err("forbidden");
    assert!(error.is_connect() && !error.is_timeout(), "{error}");
    assert!(error.to_string().contains("private network"), "{error}");
    assert_eq!(error.resolve_error(), None, "it was resolved");
    assert_eq!(mock.audit().count(), 0, "no packet left");
    let upstream = client.upstream("strict").expect("there");
    assert!(upstream.is_idle(), "its permit was refunded");
}

// Ten connections of one call each: the name's owner has ten chances to change it and no more.
#[tokio::test]
async fn each_connection_resolves_its_name_once() {
    let closing = MockResponse::ok("{}").header("connection", "close");
    let mock = scripted(Script::new().rule(ScriptMatch::always(), closing));
    let server = mock.listen().await.expect("a port");
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&asked);
    let names = FnResolver(move |_: &str| {
        counted.fetch_add(1, Ordering::Relaxed);
        Ok(vec![[127, 0, 0, 1].into()])
    });
    let client = named_client(server.address().port(), names, |_| {});
    let client = client.build().expect("valid");
    for nth in 1..=10 {
        client.get("strict", "/").send().await.expect("a response");
        assert_eq!(asked.load(Ordering::Relaxed), nth);
    }
}

// The server is at one of a hundred addresses: the client finds it among the first eight. A ninth
// would make the attempts endless.
#[tokio::test]
async fn the_client_tries_few_of_a_hundred_addresses() {
    let mock = scripted(Script::new());
    let server = mock.listen().await.expect("a port");
    for (place, reached) in [(0, true), (7, true), (8, false), (99, false)] {
        let names = FnResolver(move |_: &str| {
            let unused = (2..=101).map(|last| IpAddr::from([127, 0, 0, last]));
            let mut all: Vec<_> = unused.collect();
            all[place] = [127, 0, 0, 1].into();
            Ok(all)
        });
        let client = named_client(server.address().port(), names, |_| {});
        let client = client.build().expect("valid");
        let ended = client.get("strict", "/").send().await;
        assert_eq!(ended.is_ok(), reached, "{place}: {ended:?}");
    }
}

/// Opens an address of this machine that never accepts: its backlog is full.
async fn full_backlog(at: SocketAddr) -> (tokio::net::TcpListener, Vec<TcpStream>) {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.bind(at).expect("a free address");
    let listener = socket.listen(0).expect("it listens");
    let mut waiting = Vec::new();
    let soon = Duration::from_millis(100);
    while let Ok(taken) = tokio::time::timeout(soon, TcpStream::connect(at)).await {
        waiting.push(taken.expect("a place in line"));
    }
    (listener, waiting)
}

// The first address gets half of two seconds; without a share it would take both.
#[tokio::test]
async fn a_silent_address_leaves_time_for_the_others() {
    let mock = scripted(Script::new());
    let server = mock.listen().await.expect("a port");
    let port = server.address().port();
    let _line = full_backlog(([127, 0, 0, 2], port).into()).await;
    let names = FnResolver(|_: &str| Ok(vec![[127, 0, 0, 2].into(), [127, 0, 0, 1].into()]));
    let client = named_client(port, names, |api| {
        api.timeouts.connect = Duration::from_secs(2);
    });
    let client = client.build().expect("valid");
    let response = client.get("strict", "/").send().await.expect("the second");
    assert_eq!(response.attempts(), 1);
}
