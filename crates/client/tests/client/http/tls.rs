//! Who the server is.

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
async fn a_trusted_server_is_spoken_to_in_http_2() {
    let strict = scripted(Script::new());
    let server = strict.listen_tls(Tls::Good).await.expect("a port");
    let client = trusting(&server, |_| {});
    strict.answer("/", outflow_mock::MockResponse::echo());
    let first = client.get("strict", "/").send().await.expect("an answer");
    let echo = first.text().await.expect("text");
    assert!(echo.contains("HTTP/2.0"), "{echo}");
    let (one, two) = tokio::join!(
        client.get("strict", "/one").send(),
        client.post("strict", "/two").body("b").send()
    );
    assert!(one.is_ok() && two.is_ok());
    let audit = strict.audit();
    let first = audit.arrivals()[0].connection;
    assert!(
        audit
            .arrivals()
            .iter()
            .all(|arrival| arrival.connection == first)
    );
}

// What another attempt would meet again is tried once; what may have been an accident three times.
#[tokio::test]
async fn a_certificate_that_cannot_be_trusted_is_not_tried_again() {
    for (tls, words, attempts) in [
        (Tls::Expired, "has expired", 1),
        (Tls::WrongName, "for another name", 1),
        (Tls::SelfSigned, "certificate", 1),
        (Tls::CloseMidway, "closed the connection", 3),
        (Tls::OldVersion, "TLS", 3),
    ] {
        let strict = scripted(Script::new());
        let server = strict.listen_tls(tls).await.expect("a port");
        let client = trusting(&server, |_| {});
        let heard = EventRecorder::subscribed_to(client.events());
        let error = client
            .post("strict", "/")
            .send()
            .await
            .expect_err("untrusted");
        assert!(error.is_connect(), "{tls:?}: {error:?}");
        assert!(error.to_string().contains(words), "{tls:?}: {error}");
        assert_eq!(error.attempts(), attempts, "{tls:?}");
        assert_eq!(
            heard.finished()[0].reason,
            Some(FailureLabel::Tls),
            "{tls:?}"
        );
        assert_eq!(strict.audit().count(), 0, "{tls:?}");
    }
}

#[tokio::test]
async fn nobody_is_trusted_without_a_reason() {
    let strict = scripted(Script::new());
    let server = strict.listen_tls(Tls::Good).await.expect("a port");
    let mut api = eager(&server.url());
    api.retry.count = 0;
    // A machine that trusts nobody cannot call anybody by TLS, which is as good.
    if let Ok(client) = Outflow::init([api.clone()]) {
        let error = client
            .get("strict", "/")
            .send()
            .await
            .expect_err("a stranger");
        assert!(error.to_string().contains("unknown issuer"), "{error}");
    }
    api.trust = TlsTrust::AnyCertificate;
    let client = Outflow::init([api]).expect("valid");
    let answer = client
        .get("strict", "/")
        .send()
        .await
        .expect("for a test at most");
    assert_eq!(answer.status(), 200);
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
        let error = Outflow::init([api.clone()]).expect_err("nobody to trust");
        assert!(error.to_string().contains(words), "{error}");
    }
    let broken = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    file.write_all(broken).expect("written");
    api.trust = TlsTrust::File(file.path().to_owned());
    assert!(Outflow::init([api]).is_err());
}

// The slow call is given up when its answer has four and a half seconds to go. The connection lives
// on, and what may be repeated on it is what may be repeated anywhere.
#[tokio::test]
async fn a_call_that_is_given_up_leaves_the_connection_to_others() {
    let script = Script::new()
        .rule(
            ScriptMatch::path("/slow"),
            ScriptedFault::Late(Duration::from_secs(5)),
        )
        .rule(ScriptMatch::path("/fail"), MockResponse::status(503));
    let strict = scripted(script);
    let server = strict.listen_tls(Tls::Good).await.expect("a port");
    let client = trusting(&server, |_| {});
    let slow = client.get("strict", "/slow").send();
    let given_up = tokio::time::timeout(Duration::from_millis(500), slow).await;
    assert!(given_up.is_err());
    assert!(client.upstream("strict").expect("there").is_idle());
    for (method, attempts) in [(Method::GET, 3), (Method::POST, 1)] {
        let call = client.request(method, "strict", "/fail").body("x");
        assert_eq!(call.send().await.expect("the 503").attempts(), attempts);
    }
    let audit = strict.audit();
    assert_eq!(audit.attempts("/slow"), 1);
    let mut others = audit.arrivals().iter().map(|one| one.connection);
    let first = others.next();
    assert!(others.all(|one| Some(one) == first));
}
