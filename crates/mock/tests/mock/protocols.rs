//! HTTP/2 and TLS, with a real client on a real socket.

use std::io::ErrorKind;
use std::sync::Arc;

use http::{Request, Version};
use http_body_util::{BodyExt, Empty};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use outflow_mock::{Fault, MockApi, MockResponse, Protocols, Script, ScriptMatch, Server, Tls};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{AlertDescription, CertificateError, ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::support::{api, last_get, serving, status, talk, tcp};

/// Returns the version and the body of the response to one request over HTTP/2, or the error.
async fn get_over_http2(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
) -> Result<(Version, String), hyper::Error> {
    let io = TokioIo::new(stream);
    let (mut sender, connection) = http2::handshake(TokioExecutor::new(), io).await?;
    let request = Request::get("http://strict.test/echo");
    let request = request.body(Empty::<bytes::Bytes>::new()).expect("valid");
    let exchange = async {
        let response = sender.send_request(request).await?;
        let version = response.version();
        let body = response.into_body().collect().await?.to_bytes();
        Ok((version, String::from_utf8_lossy(&body).into_owned()))
    };
    tokio::select! {
        answer = exchange => answer,
        ended = connection => Err(ended.expect_err("the connection ended first")),
    }
}

#[tokio::test]
async fn http2_works_with_prior_knowledge() {
    let server = serving(MockApi::builder().answer("/echo", MockResponse::echo()));
    let (version, body) = get_over_http2(server.connect()).await.expect("an answer");
    assert_eq!(version, Version::HTTP_2);
    assert!(body.contains("\"version\":\"HTTP/2.0\""), "{body}");
    assert_eq!(server.api().totals().seen, 1);
}

#[tokio::test]
async fn a_fault_ends_an_http2_connection() {
    let script = Script::new().rule(ScriptMatch::always(), Fault::CutBody);
    let server = serving(MockApi::builder().script(script));
    let failed = get_over_http2(server.connect()).await;
    failed.expect_err("no answer");
    assert_eq!(server.api().totals().scripted, 1);
}

async fn secured(server: &Server) -> std::io::Result<TlsStream<tokio::net::TcpStream>> {
    let ca = server.ca_pem().expect("an authority");
    let mut roots = RootCertStore::empty();
    let ca = CertificateDer::from_pem_slice(ca.as_bytes()).expect("a certificate");
    roots.add(ca).expect("a trusted one");
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let name = ServerName::try_from("localhost").expect("a name");
    let connector = TlsConnector::from(Arc::new(config));
    connector.connect(name, tcp(server).await).await
}

async fn refused_by_client(tls: Tls) -> rustls::Error {
    let server = api(MockApi::builder());
    let server = server.listen_tls(tls).await.expect("a port");
    let error = secured(&server).await.expect_err("not trusted");
    let inner = error.into_inner().expect("a reason");
    *inner.downcast::<rustls::Error>().expect("one of TLS")
}

#[tokio::test]
async fn a_good_certificate_is_trusted_and_http2_negotiated() {
    let builder = MockApi::builder().answer("/echo", MockResponse::echo());
    let server = api(builder).listen_tls(Tls::Good).await.unwrap();
    assert!(server.url().starts_with("https://localhost:"));
    let stream = secured(&server).await.expect("trusted");
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    let (version, _) = get_over_http2(stream).await.expect("an answer");
    assert_eq!(version, Version::HTTP_2);
}

#[tokio::test]
async fn bad_certificates_fail_as_named() {
    let wrong = |tls| async move {
        match refused_by_client(tls).await {
            rustls::Error::InvalidCertificate(why) => why,
            other => panic!("{other:?}"),
        }
    };
    let expired = wrong(Tls::Expired).await;
    assert!(
        matches!(
            expired,
            CertificateError::Expired | CertificateError::ExpiredContext { .. }
        ),
        "{expired:?}"
    );
    let name = wrong(Tls::WrongName).await;
    assert!(
        matches!(
            name,
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. }
        ),
        "{name:?}"
    );
    assert_eq!(wrong(Tls::SelfSigned).await, CertificateError::UnknownIssuer);
}

#[tokio::test]
async fn a_handshake_can_end_midway() {
    let server = api(MockApi::builder()).listen_tls(Tls::CloseMidway).await.unwrap();
    let error = secured(&server).await.expect_err("hung up");
    assert_eq!(error.kind(), ErrorKind::UnexpectedEof);
    let old = refused_by_client(Tls::OldVersion).await;
    assert_eq!(old, rustls::Error::AlertReceived(AlertDescription::ProtocolVersion));
}

#[tokio::test]
async fn plain_text_on_a_tls_port_gets_no_response() {
    let server = api(MockApi::builder()).listen_tls(Tls::Good).await.unwrap();
    let (received, _) = talk(tcp(&server).await, &last_get("/")).await;
    assert_ne!(status(&received), "200");
    assert_eq!(server.api().totals().seen, 0);
}

// A client that only knows HTTP/2 finds no common protocol.
#[tokio::test]
async fn a_single_protocol_server_offers_no_other() {
    let builder = MockApi::builder().protocols(Protocols::Http1);
    let server = api(builder).listen_tls(Tls::Good).await.unwrap();
    secured(&server).await.expect_err("nothing in common");
    let builder = MockApi::builder().protocols(Protocols::Http2);
    let (received, _) = talk(serving(builder).connect(), &last_get("/")).await;
    assert!(!received.starts_with("HTTP/1.1"), "{received}");
}
