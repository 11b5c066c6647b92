//! Server authentication.

use std::io::Write;
use std::time::Duration;

use http::Method;
use outflow::event::FailureLabel;
use outflow::{Outflow, TlsTrust};
use outflow_mock::{MockResponse, Script, ScriptMatch, ScriptedFault, Tls};
use outflow_testkit::EventRecorder;

use super::support::{eager, scripted, trusting};

// HTTP/2 on one connection: two calls at once do not need a second one.
#[tokio::test]
async fn a_trusted_server_is_called_over_http_2() {
    let mock = scripted(Script::new());
    let server = mock.listen_tls(Tls::Good).await.expect("a port");
    let client = trusting(&server, |_| {});
    mock.answer("/", outflow_mock::MockResponse::echo());
    let first = client.get("strict", "/").send().await.expect("a response");
    let echo = first.text().await.expect("text");
    assert!(echo.contains("HTTP/2.0"), "{echo}");
    let (one, two) = tokio::join!(
        client.get("strict", "/one").send(),
        client.post("strict", "/two").body("b").send()
    );
    assert!(one.is_ok() && two.is_ok());
    let audit = mock.audit();
    let first = audit.arrivals()[0].connection;
    assert!(audit.arrivals().iter().all(|arrival| arrival.connection == first));
}

// A permanent failure is tried once, a possibly transient one three times.
#[tokio::test]
async fn an_untrusted_certificate_is_not_retried() {
    for (tls, words, attempts) in [
        (Tls::Expired, "has expired", 1),
        (Tls::WrongName, "for another name", 1),
        (Tls::SelfSigned, "certificate", 1),
        (Tls::CloseMidway, "closed the connection", 3),
        (Tls::OldVersion, "TLS", 3),
    ] {
        let mock = scripted(Script::new());
        let server = mock.listen_tls(tls).await.expect("a port");
        let client = trusting(&server, |_| {});
        let recorder = EventRecorder::subscribed_to(client.events());
        let error = client.post("strict", "/").send().await.expect_err("untrusted");
        assert!(error.is_connect(), "{tls:?}: {error:?}");
        assert!(error.to_string().contains(words), "{tls:?}: {error}");
        assert_eq!(error.attempts(), attempts, "{tls:?}");
        assert_eq!(recorder.finished()[0].reason, Some(FailureLabel::Tls), "{tls:?}");
        assert_eq!(mock.audit().count(), 0, "{tls:?}");
    }
}

#[tokio::test]
async fn no_server_is_trusted_by_default() {
    let mock = scripted(Script::new());
    let server = mock.listen_tls(Tls::Good).await.expect("a port");
    let mut api = eager(&server.url());
    api.retry.count = 0;
    // A machine without trusted roots cannot call any server over TLS, which is as safe.
    if let Ok(client) = Outflow::init([api.clone()]) {
        let error = client.get("strict", "/").send().await.expect_err("a stranger");
        assert!(error.to_string().contains("unknown issuer"), "{error}");
    }
    api.trust = TlsTrust::AnyCertificate;
    let client = Outflow::init([api]).expect("valid");
    let response = client.get("strict", "/").send().await.expect("for a test at most");
    assert_eq!(response.status(), 200);
}

#[test]
fn a_file_without_certificates_is_refused_at_the_start() {
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    let mut api = eager("https://localhost");
    for (path, words) in [
        (file.path().to_owned(), "is empty"),
        ("/nonexistent.pem".into(), "not readable"),
    ] {
        api.trust = TlsTrust::File(path);
        let error = Outflow::init([api.clone()]).expect_err("no certificates");
        assert!(error.to_string().contains(words), "{error}");
    }
    let broken = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    file.write_all(broken).expect("written");
    api.trust = TlsTrust::File(file.path().to_owned());
    assert!(Outflow::init([api]).is_err());
}

// The slow call is dropped 4.5 s before its response. The connection stays open, and its retry
// rules are unchanged.
#[tokio::test]
async fn a_dropped_call_leaves_the_connection_to_others() {
    let script = Script::new()
        .rule(ScriptMatch::path("/slow"), ScriptedFault::Late(Duration::from_secs(5)))
        .rule(ScriptMatch::path("/fail"), MockResponse::status(503));
    let mock = scripted(script);
    let server = mock.listen_tls(Tls::Good).await.expect("a port");
    let client = trusting(&server, |_| {});
    let slow = client.get("strict", "/slow").send();
    let given_up = tokio::time::timeout(Duration::from_millis(500), slow).await;
    assert!(given_up.is_err());
    assert!(client.upstream("strict").expect("there").is_idle());
    for (method, attempts) in [(Method::GET, 3), (Method::POST, 1)] {
        let call = client.request(method, "strict", "/fail").body("x");
        assert_eq!(call.send().await.expect("the 503").attempts(), attempts);
    }
    let audit = mock.audit();
    assert_eq!(audit.attempts("/slow"), 1);
    let mut others = audit.arrivals().iter().map(|one| one.connection);
    let first = others.next();
    assert!(others.all(|one| Some(one) == first));
}
