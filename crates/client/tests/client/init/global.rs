//! The client of the process: set once, called from anywhere.

use outflow::{Api, InitError};
use outflow_mock::{MockApi, MockResponse};
use outflow_testkit::Background;

use super::configured;

// One test: the client of the process is set once.
#[tokio::test]
async fn a_process_has_one_client_that_any_module_calls() {
    let early = outflow::get("strict", "/films/603")
        .send()
        .await
        .expect_err("no client");
    assert!(early.is_invalid_request(), "{early}");
    assert!(early.to_string().contains("call `outflow::init` once"), "{early}");
    assert!(outflow::global().is_none());

    let api = MockApi::builder()
        .answer("/**", MockResponse::ok("{}"))
        .build()
        .expect("valid");
    let server = api.listen().await.expect("a port");
    let (first, second) = (
        tempfile::tempdir().expect("a directory"),
        tempfile::tempdir().expect("a directory"),
    );
    let twice = Api::new("strict", "http://127.0.0.1:9".parse().expect("a URL"));
    outflow::init([twice.clone(), twice]).expect_err("two APIs of one name");
    let client = outflow::init(configured(&server.url(), first.path())).expect("the first one that starts");

    let film = outflow::get("strict", "/films/603").send().await.expect("a response");
    assert_eq!(film.status(), 200);
    let order = Background::start(outflow::post("strict", "/orders").json(&[7]).send());
    assert_eq!(order.join().await.expect("a response").status(), 200);
    outflow::request(http::Method::PATCH, "strict", "/orders/7")
        .send()
        .await
        .expect("a response");
    assert_eq!(api.audit().count(), 3);

    let again = outflow::init(configured(&server.url(), second.path())).expect_err("a second one");
    assert!(matches!(again, InitError::AlreadyInitialized), "{again}");
    assert!(again.to_string().contains("Outflow::init"), "{again}");
    assert!(client.close(super::PATIENCE).await);
}
