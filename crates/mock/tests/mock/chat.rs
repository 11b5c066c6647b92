//! The limits and the key of a language model API.

use http::header::AUTHORIZATION;
use outflow_core::Cost;
use outflow_mock::{ArrivalVerdict, MockApi, MockResponse, Quota, Received, TokenCount};

use crate::support::{header, said_to, serving, status};

/// Builds a request of one word with this key that allows this many tokens.
fn question(key: &str, max_tokens: u32) -> String {
    let body = format!("{{\"messages\":[{{\"content\":\"why\"}}],\"max_tokens\":{max_tokens}}}");
    format!(
        "POST /chat/completions HTTP/1.1\r\nhost: strict.test\r\nconnection: close\r\nauthorization: Bearer {key}\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    )
}

// A thousand tokens in ten seconds: two requests of 500 fit, and one token more does not.
#[tokio::test(start_paused = true)]
async fn a_chat_api_counts_the_tokens_of_each_request() {
    let tokens = Quota::sliding("1000/10s".parse().expect("a rate"));
    let builder = MockApi::builder().limit(tokens).counting_tokens(TokenCount::Asked);
    let server = serving(builder.answer("/**", MockResponse::chat()));
    for expected in ["200", "200", "429"] {
        let response = said_to(&server, &question("k", 499)).await;
        assert_eq!(status(&response), expected, "{response}");
    }
    let audit = server.api().audit();
    assert!(audit.arrivals().iter().all(|arrival| arrival.cost == Cost::new(500)));
    assert!(matches!(audit.arrivals()[0].body, Received::Whole(_)));
}

#[tokio::test(start_paused = true)]
async fn a_request_without_the_required_key_gets_401_and_uses_no_quota() {
    let limit = Quota::sliding("1/s".parse().expect("a rate"));
    let builder = MockApi::builder().limit(limit).requiring(AUTHORIZATION, "Bearer right");
    let server = serving(builder.answer("/**", MockResponse::chat()));
    for (key, expected) in [("wrong", "401"), ("", "401"), ("right", "200")] {
        let response = said_to(&server, &question(key, 9)).await;
        assert_eq!(status(&response), expected, "{response}");
        assert_eq!(header(&response, "content-type"), Some("application/json"));
    }
    let audit = server.api().audit();
    assert_eq!(audit.arrivals()[0].verdict, ArrivalVerdict::Unauthorized);
    assert_eq!(server.api().totals().unauthorized, 2);
}
