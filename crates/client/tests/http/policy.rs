//! The policy table through a real socket: each end of an attempt, with a method that may be
//! repeated and with one that may not.

use http::Method;
use outflow_upstream::{Answer, Fault, Refusal, Script, When};
use std::time::Duration;

use super::support::{over_sockets, scripted};

/// How often a call reaches a server that always does this, with two retries allowed.
async fn sent(
    act: impl Into<outflow_upstream::Act>,
    method: Method,
) -> (usize, Result<u16, String>) {
    let strict = scripted(Script::new().rule(When::always(), act));
    let server = strict.listen().await.expect("a port");
    let client = over_sockets(&server, |api| {
        api.timeouts.read = Duration::from_millis(100);
    });
    let call = client.request(method, "strict", "/cell").body("a body");
    let ended = call.send().await;
    let told = match ended {
        Ok(answer) => Ok(answer.status().as_u16()),
        Err(error) => Err(error.to_string()),
    };
    (strict.audit().attempts("/cell"), told)
}

macro_rules! cells {
    ($($name:ident: $act:expr, $get:expr, $post:expr;)*) => {$(
        // The first number is what a GET reaches, the second what a POST does.
        #[tokio::test]
        async fn $name() {
            for (method, times) in [(Method::GET, $get), (Method::POST, $post)] {
                let (reached, told) = sent($act, method.clone()).await;
                assert_eq!(reached, times, "{method}: {told:?}");
            }
        }
    )*};
}

cells! {
    success_is_not_repeated: Answer::ok("{}"), 1, 1;
    no_content_is_not_repeated: Answer::status(204), 1, 1;
    bad_json_is_not_repeated: Answer::bad_json(), 1, 1;
    a_redirect_nowhere_is_not_repeated: Answer::status(304), 1, 1;
    a_bad_request_is_not_repeated: Answer::status(400), 1, 1;
    an_unauthorised_call_is_not_repeated: Answer::status(401), 1, 1;
    a_forbidden_call_is_not_repeated: Answer::status(403), 1, 1;
    what_is_not_found_is_not_repeated: Answer::status(404), 1, 1;
    what_cannot_be_processed_is_not_repeated: Answer::status(422), 1, 1;
    a_ban_is_not_repeated: Answer::status(418), 1, 1;
    a_refusal_is_repeated_where_that_is_harmless: Refusal::new(429, Duration::ZERO).told_as(outflow_upstream::Tell::Nothing), 3, 1;
    an_internal_error_is_repeated_where_that_is_harmless: Answer::status(500), 3, 1;
    a_bad_gateway_is_repeated_where_that_is_harmless: Answer::status(502), 3, 1;
    unavailability_is_repeated_where_that_is_harmless: Answer::status(503), 3, 1;
    a_gateway_timeout_is_repeated_where_that_is_harmless: Answer::status(504), 3, 1;
    a_reset_is_repeated_where_that_is_harmless: Fault::ResetBeforeHead, 3, 1;
    a_reset_with_the_body_unread_is_repeated_where_that_is_harmless: Fault::ResetUnread, 3, 1;
    a_silent_close_is_repeated_where_that_is_harmless: Fault::CloseBeforeHead, 3, 1;
    silence_is_repeated_where_that_is_harmless: Fault::Hang, 3, 1;
    a_cut_body_is_repeated_where_that_is_harmless: Fault::CutBody, 3, 1;
    a_cut_chunk_is_repeated_where_that_is_harmless: Fault::CutChunk, 3, 1;
    a_reset_in_the_body_is_repeated_where_that_is_harmless: Fault::ResetInBody, 3, 1;
    garbage_is_repeated_where_that_is_harmless: Fault::Garbage, 3, 1;
    a_changed_protocol_is_repeated_where_that_is_harmless: Fault::Unasked101, 3, 1;
}

// Every method that is idempotent by its definition, and those that are not.
#[tokio::test]
async fn the_method_says_whether_twice_is_once() {
    for (method, times) in [
        (Method::GET, 3),
        (Method::HEAD, 3),
        (Method::OPTIONS, 3),
        (Method::PUT, 3),
        (Method::DELETE, 3),
        (Method::POST, 1),
        (Method::PATCH, 1),
    ] {
        let (reached, _) = sent(Answer::status(500), method.clone()).await;
        assert_eq!(reached, times, "{method}");
    }
}
