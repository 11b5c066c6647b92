//! The route to an API: direct, or through a configured proxy, and never through another.

use std::process::Command;
use std::time::Duration;

use outflow::{Api, Outflow, Proxy};
use outflow_mock::{Content, MockResponse, Script, ScriptMatch};
use outflow_testkit::Background;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

use super::support::{eager, over_sockets, scripted};

/// Starts a proxy that opens tunnels and reports their targets.
async fn proxy() -> (String, mpsc::UnboundedReceiver<String>, Background<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("one"));
    let (targets, asked) = mpsc::unbounded_channel();
    let work = async move {
        while let Ok((stream, _)) = listener.accept().await {
            tunnel(stream, &targets).await;
        }
    };
    (url, asked, Background::start(work))
}

async fn tunnel(stream: TcpStream, targets: &mpsc::UnboundedSender<String>) {
    let mut stream = BufReader::new(stream);
    let (mut first, mut line) = (String::new(), String::new());
    stream.read_line(&mut first).await.expect("a line");
    while line != "\r\n" {
        line.clear();
        stream.read_line(&mut line).await.expect("a line");
    }
    let to = first.split(' ').nth(1).unwrap_or_default().to_owned();
    targets.send(first).expect("heard");
    let mut server = TcpStream::connect(to).await.expect("there");
    stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.expect("open");
    tokio::io::copy_bidirectional(&mut stream, &mut server).await.ok();
}

#[tokio::test]
async fn the_client_uses_a_configured_proxy() {
    let mock = scripted(Script::new());
    let server = mock.listen().await.expect("a port");
    let (url, mut asked, _running) = proxy().await;
    let mut api = eager(&server.url());
    api.proxy = Proxy::Url(url.parse().expect("a URL"));
    let client = Outflow::init([api]).expect("valid");
    let response = client.get("strict", "/").send().await.expect("through it");
    assert_eq!(response.status(), 200);
    let first = asked.recv().await.expect("asked");
    assert_eq!(first, format!("CONNECT {} HTTP/1.1\r\n", server.address()));
}

#[tokio::test]
async fn the_client_never_bypasses_an_unreachable_proxy() {
    let mock = scripted(Script::new());
    let server = mock.listen().await.expect("a port");
    let mut api = eager(&server.url());
    api.proxy = Proxy::Url("http://127.0.0.1:1".parse().expect("a URL"));
    let client = Outflow::init([api]).expect("valid");
    let error = client.get("strict", "/").send().await.expect_err("no way");
    assert!(error.is_connect(), "{error}");
    assert_eq!(mock.audit().count(), 0);
}

#[test]
fn tls_to_a_proxy_is_refused_at_the_start() {
    let mut api: Api = eager("http://localhost");
    api.proxy = Proxy::Url("https://proxy.example".parse().expect("a URL"));
    let error = Outflow::init([api]).expect_err("not spoken");
    assert!(error.to_string().contains("TLS to a proxy is not supported"), "{error}");
}

// A process cannot change its own environment safely, so the test starts itself again with the
// variables set. They apply only if the client asks for them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_client_follows_the_environment_only_if_configured() {
    if std::env::var_os(INNER).is_some() {
        return check_environment_proxy().await;
    }
    let (url, mut asked, _running) = proxy().await;
    let status = Command::new(std::env::current_exe().expect("this"))
        .args([
            "--exact",
            "http::proxies::the_client_follows_the_environment_only_if_configured",
        ])
        .envs([(INNER, "1"), ("HTTP_PROXY", &url), ("http_proxy", &url)])
        .env_remove("NO_PROXY")
        .env_remove("no_proxy")
        .status()
        .expect("it ran");
    assert!(status.success());
    let first = asked.try_recv().expect("asked once");
    assert!(first.starts_with("CONNECT 127.0.0.1:"), "{first}");
    assert!(asked.try_recv().is_err(), "and only once");
}

async fn check_environment_proxy() {
    let mock = scripted(Script::new());
    let server = mock.listen().await.expect("a port");
    for proxy in [Proxy::None, Proxy::Environment] {
        let mut api = eager(&server.url());
        api.proxy = proxy;
        let client = Outflow::init([api]).expect("valid");
        let response = client.get("strict", "/").send().await.expect("a response");
        assert_eq!(response.status(), 200);
    }
    assert_eq!(mock.audit().count(), 2);
}

// Ten bytes, most of which arrive after the client's last handle is dropped.
#[tokio::test]
async fn a_body_outlives_its_client() {
    let drip = MockResponse::ok("").content(Content::Drip {
        bytes: "0123456789".into(),
        every: Duration::from_millis(5),
    });
    let mock = scripted(Script::new().rule(ScriptMatch::always(), drip));
    let server = mock.listen().await.expect("a port");
    let client = over_sockets(&server, |_| {});
    let head = client.get("strict", "/").send_streaming().await;
    drop(client);
    let bytes = head.expect("a head").bytes().await;
    assert_eq!(bytes.expect("all of it"), "0123456789");
}

// Idle connections end with their runtime; the client does not.
#[test]
fn a_client_outlives_its_first_runtime() {
    let runtime = || tokio::runtime::Runtime::new().expect("a runtime");
    let (serving, first) = (runtime(), runtime());
    let mock = scripted(Script::new());
    let server = serving.block_on(mock.listen()).expect("a port");
    let client = first.block_on(async { over_sockets(&server, |_| {}) });
    let call = || client.get("strict", "/").send();
    first.block_on(call()).expect("in the first");
    drop(first);
    for _ in 0..3 {
        let next = runtime();
        for _ in 0..2 {
            next.block_on(call()).expect("in another");
        }
    }
    assert_eq!(mock.audit().count(), 7);
}

// A machine without IPv6 skips this test.
#[tokio::test]
async fn the_client_reaches_a_bracketed_address_with_port_and_prefix() {
    let Ok(listener) = TcpListener::bind("[::1]:0").await else {
        return;
    };
    let mock = scripted(Script::new());
    let server = mock.serve(listener).expect("served");
    let url = format!("http://[::1]:{}/v1", server.address().port());
    let client = Outflow::init([eager(&url)]).expect("valid");
    let response = client.get("strict", "/x?a=%2F").send().await;
    assert_eq!(response.expect("a response").status(), 200);
    assert!(mock.audit().arrivals()[0].path.starts_with("/v1/x"));
}

const INNER: &str = "OUTFLOW_TEST_INNER";
