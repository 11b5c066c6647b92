//! From a name to a server, with resolvers that fail in every way they can.

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

use super::support::{Names, eager, scripted};

/// A resolver that answers nobody.
struct Silent;

impl Resolve for Silent {
    fn resolve(&self, _: &str) -> Resolving {
        Box::pin(std::future::pending())
    }
}

/// A client of `api.example.com` at this port, which may lead anywhere.
fn named(port: u16, names: impl Resolve + 'static, adapt: impl FnOnce(&mut Api)) -> OutflowBuilder {
    let mut api = eager(&format!("http://api.example.com:{port}"));
    api.addresses = AddressPolicy::Any;
    api.retry.count = 0;
    adapt(&mut api);
    Outflow::builder().api(api).resolver(Arc::new(names))
}

/// What everybody is told when a name cannot be resolved like this.
async fn is_told(names: impl Resolve + 'static, why: ResolveError) {
    let client = named(80, names, |api| {
        api.timeouts.connect = Duration::from_secs(1);
    });
    let client = client.timer(Arc::new(VirtualTime::new()));
    let client = client.build().expect("valid");
    let heard = EventRecorder::subscribed_to(client.events());
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
    let finished = heard.finished().remove(0);
    assert_eq!(finished.status, status, "{why:?}");
    assert_eq!(finished.reason, Some(FailureLabel::Dns), "{why:?}");
    let told = |what: &EventKind| matches!(what, EventKind::Unresolved { error } if *error == why);
    assert!(heard.all().iter().any(|event| told(&event.what)), "{why:?}");
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
async fn each_way_of_having_no_address_is_told_apart() {
    let says = |answer: Result<Vec<IpAddr>, ResolveError>| Names(move |_: &str| answer.clone());
    is_told(
        says(Err(ResolveError::NoSuchName)),
        ResolveError::NoSuchName,
    )
    .await;
    is_told(
        says(Err(ResolveError::ServerFailed)),
        ResolveError::ServerFailed,
    )
    .await;
    is_told(says(Ok(Vec::new())), ResolveError::NoAddress).await;
    is_told(Silent, ResolveError::TimedOut).await;
}

// Of the second in which a connection may be made, a tenth is kept for making it.
#[tokio::test(start_paused = true)]
async fn a_resolver_that_never_answers_is_given_up_in_the_time_of_a_connection() {
    let client = named(80, Silent, |api| {
        api.timeouts.connect = Duration::from_secs(1);
    });
    let client = client.timer(Arc::new(VirtualTime::new()));
    let client = client.build().expect("valid");
    let began = Instant::now();
    let error = client.post("strict", "/").send().await;
    assert!(error.expect_err("silent").is_timeout());
    assert_eq!(began.elapsed().as_millis(), 900);
}

// It fails for the first attempt. Nothing left then, so even a POST is tried again.
#[tokio::test]
async fn a_resolver_that_recovers_is_asked_again() {
    let strict = scripted(Script::new());
    let server = strict.listen().await.expect("a port");
    let asked = AtomicUsize::new(0);
    let names = Names(move |_: &str| match asked.fetch_add(1, Ordering::Relaxed) {
        0 => Err(ResolveError::ServerFailed),
        _ => Ok(vec![[127, 0, 0, 1].into()]),
    });
    let client = named(server.address().port(), names, |api| api.retry.count = 1);
    let client = client.build().expect("valid");
    let answer = client.post("strict", "/").body("x").send().await;
    assert_eq!(answer.expect("the second time").attempts(), 2);
}

// The owner of a name lets it lead to this machine, where a server is waiting.
#[tokio::test]
async fn a_name_that_leads_home_is_not_followed() {
    let strict = scripted(Script::new());
    let server = strict.listen().await.expect("a port");
    let home = Names(|_: &str| Ok(vec![[127, 0, 0, 1].into()]));
    let client = named(server.address().port(), home, |api| {
        api.addresses = AddressPolicy::Public;
    });
    let client = client.build().expect("valid");
    let error = client.get("strict", "/").send().await;
    let error = error.expect_err("forbidden");
    assert!(error.is_connect() && !error.is_timeout(), "{error}");
    assert!(error.to_string().contains("private network"), "{error}");
    assert_eq!(error.resolve_error(), None, "it was resolved");
    assert_eq!(strict.audit().count(), 0, "no packet left");
    let door = client.upstream("strict").expect("there");
    assert!(door.is_idle(), "its permit was given back");
}

// Ten connections of one call each: whoever owns the name has ten chances to change it and no more.
#[tokio::test]
async fn a_name_is_asked_once_for_each_connection() {
    let closing = MockResponse::ok("{}").header("connection", "close");
    let strict = scripted(Script::new().rule(ScriptMatch::always(), closing));
    let server = strict.listen().await.expect("a port");
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&asked);
    let names = Names(move |_: &str| {
        counted.fetch_add(1, Ordering::Relaxed);
        Ok(vec![[127, 0, 0, 1].into()])
    });
    let client = named(server.address().port(), names, |_| {});
    let client = client.build().expect("valid");
    for nth in 1..=10 {
        client.get("strict", "/").send().await.expect("an answer");
        assert_eq!(asked.load(Ordering::Relaxed), nth);
    }
}

// The server is at one of a hundred addresses, and nobody at the others: it is found among the first
// eight. With the ninth the connections that are tried would have no end.
#[tokio::test]
async fn of_a_hundred_addresses_a_few_are_tried() {
    let strict = scripted(Script::new());
    let server = strict.listen().await.expect("a port");
    for (place, reached) in [(0, true), (7, true), (8, false), (99, false)] {
        let names = Names(move |_: &str| {
            let nobody = (2..=101).map(|last| IpAddr::from([127, 0, 0, last]));
            let mut all: Vec<_> = nobody.collect();
            all[place] = [127, 0, 0, 1].into();
            Ok(all)
        });
        let client = named(server.address().port(), names, |_| {});
        let client = client.build().expect("valid");
        let ended = client.get("strict", "/").send().await;
        assert_eq!(ended.is_ok(), reached, "{place}: {ended:?}");
    }
}

/// An address of this machine where connections are begun and never made: its line is full.
async fn full(at: SocketAddr) -> (tokio::net::TcpListener, Vec<TcpStream>) {
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

// The first address takes half of two seconds; without a share of its own it would take both.
#[tokio::test]
async fn an_address_that_never_answers_leaves_time_for_the_others() {
    let strict = scripted(Script::new());
    let server = strict.listen().await.expect("a port");
    let port = server.address().port();
    let _line = full(([127, 0, 0, 2], port).into()).await;
    let names = Names(|_: &str| Ok(vec![[127, 0, 0, 2].into(), [127, 0, 0, 1].into()]));
    let client = named(port, names, |api| {
        api.timeouts.connect = Duration::from_secs(2);
    });
    let client = client.build().expect("valid");
    let answer = client.get("strict", "/").send().await.expect("the second");
    assert_eq!(answer.attempts(), 1);
}
