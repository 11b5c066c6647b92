//! Checks of host, origin, token and content type.

use outflow::config::Environment;
use tokio::io::AsyncReadExt;
use tokio::time::timeout;

use super::support::{PATIENCE, QUIET, STOCK, TestProgram};

const JSON: (&str, &str) = ("content-type", "application/json");

// A foreign host name that resolves to this machine is refused. Addresses cannot be rebound, and a forwarded
// port differs from ours.
#[tokio::test]
async fn the_admin_port_accepts_only_local_hosts() {
    let running = TestProgram::start().await;
    let own = running.address().to_string();
    for (host, status) in [
        (own.as_str(), 200),
        ("localhost", 200),
        ("LOCALHOST:9000", 200),
        ("127.0.0.1", 200),
        ("127.3.2.1:80", 200),
        ("[::1]:7071", 200),
        ("evil.example", 421),
        ("localhost.evil.example", 421),
        ("evil.example:7071", 421),
        ("127.0.0.1.evil.example", 421),
        ("me@localhost", 421),
        ("192.168.0.7", 421),
        ("0.0.0.0", 421),
        ("", 421),
        ("a b", 421),
    ] {
        let answer = running.send("GET", "/v1/apis", &[("host", host)], "").await;
        assert_eq!(answer.status, status, "{host}: {}", answer.text());
    }
    let twice = [("host", own.as_str()), ("host", "evil.example")];
    assert_eq!(running.send("GET", "/v1/apis", &twice, "").await.status, 400);
    let elsewhere = running.send("GET", "http://evil.example/v1/apis", &[], "").await;
    assert_eq!(elsewhere.status, 421, "the target names another host");
}

// Browsers name the origin of a request. Reads are refused as well: an image or a script of another page is a
// read.
#[tokio::test]
async fn the_admin_port_refuses_foreign_pages() {
    let running = TestProgram::start().await;
    let own = format!("http://{}", running.address());
    for (name, value, status) in [
        ("origin", own.as_str(), 200),
        ("origin", "http://evil.example", 403),
        ("origin", "null", 403),
        ("origin", "http://127.0.0.1:1", 403),
        ("origin", &own.replace("http:", "https:"), 403),
        ("sec-fetch-site", "same-origin", 200),
        ("sec-fetch-site", "none", 200),
        ("sec-fetch-site", "same-site", 403),
        ("sec-fetch-site", "cross-site", 403),
        ("sec-fetch-site", "unknown", 403),
    ] {
        let read = running.send("GET", "/v1/apis", &[(name, value)], "").await;
        assert_eq!(read.status, status, "GET with {name}: {value}");
        let headers = [(name, value), JSON];
        let body = r#"{"api":"stock"}"#;
        let write = running.send("POST", "/v1/check", &headers, body).await;
        assert_eq!(write.status, status, "POST with {name}: {value}");
    }
    let preflight = [
        ("origin", "http://evil.example"),
        ("access-control-request-method", "POST"),
    ];
    let answer = running.send("OPTIONS", "/v1/check", &preflight, "").await;
    assert_eq!(answer.status, 403);
    assert_eq!(answer.header("access-control-allow-origin"), None);
}

fn guarded() -> (String, Environment) {
    let text = QUIET.replace("[log]", "token_env = \"ADMIN\"\n    [log]");
    let environment = Environment::from_iter([("ADMIN", "s3cret-token-of-operators")]);
    (format!("{text}{STOCK}"), environment)
}

// A prefix of the token, a longer one, another scheme and two tokens at once are wrong.
#[tokio::test]
async fn the_admin_port_requires_a_configured_token() {
    let (text, environment) = guarded();
    let running = TestProgram::with_environment(&text, environment).await;
    for (value, status) in [
        ("Bearer s3cret-token-of-operators", 200),
        ("bearer s3cret-token-of-operators", 200),
        ("Bearer s3cret-toke", 401),
        ("Bearer s3cret-token-of-operatorsn", 401),
        ("Bearer  s3cret-token-of-operators", 401),
        ("Bearer ", 401),
        ("Basic s3cret-token-of-operators", 401),
        ("s3cret-token-of-operators", 401),
    ] {
        let sent = [("authorization", value)];
        let answer = running.send("GET", "/v1/snapshot", &sent, "").await;
        assert_eq!(answer.status, status, "{value}");
    }
    let right = ("authorization", "Bearer s3cret-token-of-operators");
    let twice = running.send("GET", "/v1/apis", &[right, right], "").await;
    assert_eq!(twice.status, 401, "two tokens are none");
    let none = running.get("/metrics").await;
    assert_eq!((none.status, none.header("www-authenticate")), (401, Some("Bearer")));
    assert!(!none.text().contains("s3cret"), "{}", none.text());
}

// Probes have no token, and the page asks for one. The token excuses no foreign origin.
#[tokio::test]
async fn probes_and_the_page_need_no_token() {
    let (text, environment) = guarded();
    let running = TestProgram::with_environment(&text, environment).await;
    for path in ["/", "/page.css", "/page.js", "/healthz", "/readyz"] {
        assert_eq!(running.get(path).await.status, 200, "{path}");
    }
    for path in [
        "/metrics",
        "/v1/openapi.json",
        "/v1/apis",
        "/v1/events",
        "/nowhere",
        "//",
    ] {
        assert_eq!(running.get(path).await.status, 401, "{path}");
    }
    let knowing = [
        ("authorization", "Bearer s3cret-token-of-operators"),
        ("origin", "http://evil.example"),
    ];
    assert_eq!(running.send("GET", "/v1/apis", &knowing, "").await.status, 403);
}

// The three types that a form can send, no type, and types that resemble JSON.
#[tokio::test]
async fn changes_require_a_json_body() {
    let running = TestProgram::start().await;
    let hold = r#"{"state":"offline"}"#;
    for kind in [
        Some("text/plain"),
        Some("application/x-www-form-urlencoded"),
        Some("multipart/form-data; boundary=x"),
        Some("application/jsonp"),
        Some("text/plain; application/json"),
        None,
    ] {
        let headers: Vec<_> = kind.map(|kind| ("content-type", kind)).into_iter().collect();
        let answer = running.send("POST", "/v1/apis/stock/health", &headers, hold).await;
        assert_eq!(answer.status, 415, "{kind:?}");
    }
    let state = running.get("/v1/apis").await.json()["apis"][0]["state"].clone();
    assert_eq!(state, "Normal", "nothing was held");
    let charset = [("content-type", "Application/JSON; charset=utf-8")];
    let answer = running.send("POST", "/v1/apis/stock/health", &charset, hold).await;
    assert_eq!(answer.status, 200);
}

// A link or an image sends GET, which no route that changes state accepts.
#[tokio::test]
async fn reads_change_nothing() {
    let running = TestProgram::start().await;
    for path in [
        "/v1/acquire",
        "/v1/settle",
        "/v1/refund",
        "/v1/check",
        "/v1/apis/stock/health",
    ] {
        let answer = running.get(path).await;
        assert_eq!((answer.status, answer.problem().as_str()), (405, "method"), "{path}");
        let allowed = answer.header("allow").unwrap_or_default();
        assert!(allowed.contains("POST"), "{path} allows {allowed}");
    }
    assert_eq!(running.get("/v1/nowhere").await.problem(), "not_found");
    assert_eq!(running.send("TRACE", "/v1/apis", &[], "").await.status, 405);
}

// A browser can be made to show any response, so every response carries the policy.
#[tokio::test]
async fn every_response_carries_security_headers() {
    let running = TestProgram::start().await;
    let foreign = [("host", "evil.example")];
    for answer in [
        running.get("/").await,
        running.get("/v1/snapshot").await,
        running.get("/nowhere").await,
        running.send("GET", "/", &foreign, "").await,
    ] {
        let policy = answer.header("content-security-policy").expect("a policy");
        assert!(policy.contains("default-src 'none'"), "{policy}");
        assert!(!policy.contains("unsafe"), "{policy}");
        for (name, value) in [
            ("x-content-type-options", "nosniff"),
            ("x-frame-options", "DENY"),
            ("referrer-policy", "no-referrer"),
            ("cache-control", "no-store"),
            ("cross-origin-resource-policy", "same-origin"),
        ] {
            assert_eq!(answer.header(name), Some(value), "{name}");
        }
    }
}

// A mebibyte, and one byte more.
#[tokio::test]
async fn the_admin_port_bounds_bodies() {
    let running = TestProgram::start().await;
    let padded = |size: usize| {
        let body = r#"{"api":"stock"}"#;
        format!("{body}{}", " ".repeat(size - body.len()))
    };
    assert_eq!(running.post("/v1/check", &padded(1024 * 1024)).await.status, 200);
    let large = running.post("/v1/check", &padded(1024 * 1024 + 1)).await;
    assert_eq!((large.status, large.problem().as_str()), (413, "large_body"));
}

// An unknown field is an error, so that a typo is not ignored.
#[tokio::test]
async fn the_admin_port_rejects_invalid_requests() {
    let running = TestProgram::start().await;
    for (path, body) in [
        ("/v1/check", ""),
        ("/v1/check", "{"),
        ("/v1/check", "[]"),
        ("/v1/check", r"{}"),
        ("/v1/check", r#"{"api":"stock","prority":"high"}"#),
        ("/v1/check", r#"{"api":"stock","priority":"urgent"}"#),
        ("/v1/check", r#"{"api":"stock","cost":-1}"#),
        ("/v1/check", r#"{"api":"stock","cost":1.5}"#),
        ("/v1/check", r#"{"api":"stock","group":"orders","path":"/orders"}"#),
        ("/v1/check", r#"{"api":"stock","method":"G T","path":"/orders"}"#),
        ("/v1/acquire", r#"{"api":"stock","maxwait":1}"#),
        ("/v1/acquire", r#"{"api":"stock","lease_ms":0}"#),
        ("/v1/acquire", r#"{"api":"stock","lease_ms":600001}"#),
        ("/v1/apis/stock/health", r#"{"state":"asleep"}"#),
        ("/v1/apis/stock/health", r#"{"state":"offline","until":"monday"}"#),
    ] {
        let answer = running.post(path, body).await;
        assert_eq!(
            (answer.status, answer.problem().as_str()),
            (400, "bad_request"),
            "{body}"
        );
    }
    for target in [
        "/v1/explain",
        "/v1/explain?api=stock&cost=much",
        "/v1/events?snapshot_ms=1",
        "/v1/events?kind=all",
    ] {
        assert_eq!(running.get(target).await.status, 400, "{target}");
    }
}

// One second instead of the default of ten keeps the test short.
#[tokio::test]
async fn the_admin_port_closes_a_connection_with_an_incomplete_head() {
    let text = QUIET.replace("[admin]", "header_timeout = \"1s\"\n    [admin]");
    let running = TestProgram::with_config(&format!("{text}{STOCK}")).await;
    let mut wire = tokio::net::TcpStream::connect(running.address()).await.expect("a port");
    tokio::io::AsyncWriteExt::write_all(&mut wire, b"GET / HTTP/1.1\r\nhost: local")
        .await
        .expect("sent");
    let mut rest = Vec::new();
    let ended = timeout(PATIENCE, wire.read_to_end(&mut rest)).await;
    ended.expect("the connection is closed").expect("in an orderly way");
}

// Two connections may be open: a third gets its health check answered and nothing else, and a closed one frees its place.
#[tokio::test]
async fn the_admin_port_bounds_connections() {
    let text = QUIET.replace("[admin]", "max_connections = 2\n    [admin]");
    let running = TestProgram::with_config(&format!("{text}{STOCK}")).await;
    let mut open = Vec::new();
    for _ in 0..2 {
        let mut wire = running.open("GET", "/v1/events", &[], "").await;
        let mut byte = [0];
        wire.read_exact(&mut byte).await.expect("an answer begins");
        open.push(wire);
    }
    for (path, status) in [("/healthz", 200), ("/readyz", 200), ("/metrics", 503)] {
        let mut third = running.open("GET", path, &[], "").await;
        let mut rest = String::new();
        let read = timeout(PATIENCE, third.read_to_string(&mut rest)).await;
        read.expect("in time").expect("an answer");
        assert!(rest.starts_with(&format!("HTTP/1.1 {status}")), "{path}: {rest}");
        let is_full = rest.contains("urn:outflow:problem:too_many_connections");
        assert_eq!(is_full, status == 503, "{path}: {rest}");
    }
    drop(open);
    let served = async {
        loop {
            let mut wire = running.open("GET", "/v1/snapshot", &[], "").await;
            let mut answer = Vec::new();
            let read = wire.read_to_end(&mut answer).await;
            if read.is_ok() && answer.starts_with(b"HTTP/1.1 200") {
                return;
            }
            tokio::task::yield_now().await;
        }
    };
    timeout(PATIENCE, served).await.expect("a place is given again");
}
