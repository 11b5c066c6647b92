//! The policy table over a real socket: each end of an attempt, with an idempotent method and
//! another, and its effect on the API's health.

use std::time::Duration;

use http::Method;
use outflow::ThrottledRetry;
use outflow::core::{HealthSnapshot, HealthState, OutcomeClass, OutcomeCounts};
use outflow_mock::{Fault, MockResponse, Script, ScriptMatch, ThrottleResponse};

use super::support::{cautious, over_sockets, scripted};

/// Result of a call.
struct CallOutcome {
    reached: usize,
    result: Result<u16, String>,
    health: HealthSnapshot,
}

/// Makes a call to a server that always acts like this, with two retries allowed.
async fn sent(act: impl Into<outflow_mock::ScriptedFault>, method: Method) -> CallOutcome {
    let mock = scripted(Script::new().rule(ScriptMatch::always(), act));
    let server = mock.listen().await.expect("a port");
    let client = over_sockets(&server, |api| {
        // The table states attempts, which calls that keep their queue position do not use up.
        cautious(api);
        api.retry.throttled = ThrottledRetry::Idempotent;
        api.timeouts.read = Duration::from_millis(100);
    });
    let call = client.request(method, "strict", "/cell").body("a body");
    let ended = call.send().await;
    let result = match ended {
        Ok(response) => Ok(response.status().as_u16()),
        Err(error) => Err(error.to_string()),
    };
    let upstream = client.upstream("strict").expect("there");
    CallOutcome {
        reached: mock.audit().attempts("/cell"),
        result,
        health: upstream.report().health.remove(0).snapshot,
    }
}

/// Returns the health state after this many attempts with this outcome in a row.
const fn state(effect: OutcomeClass, times: usize) -> HealthState {
    match effect {
        OutcomeClass::Banned => HealthState::Sleep,
        OutcomeClass::Throttled if times >= 3 => HealthState::Throttle,
        _ => HealthState::Normal,
    }
}

/// Returns the counts after this many attempts with this outcome. A state that was just entered
/// has counted nothing yet.
fn counted(effect: OutcomeClass, times: usize) -> OutcomeCounts {
    let mut counts = OutcomeCounts::default();
    if state(effect, times) != HealthState::Normal {
        return counts;
    }
    let times = u32::try_from(times).expect("few");
    match effect {
        OutcomeClass::Success => counts.success = times,
        OutcomeClass::Throttled => counts.throttled = times,
        OutcomeClass::ServerFailed => counts.server = times,
        OutcomeClass::NetworkFailed => counts.network = times,
        OutcomeClass::OtherFailed => counts.other = times,
        OutcomeClass::Banned | OutcomeClass::Neutral | OutcomeClass::Cancelled => {}
    }
    counts
}

macro_rules! cells {
    ($($name:ident: $act:expr, $get:expr, $post:expr, $effect:ident;)*) => {$(
        // The numbers are the attempts of a GET and of a POST; the word is each attempt's outcome
        // class.
        #[tokio::test]
        async fn $name() {
            let effect = OutcomeClass::$effect;
            for (method, times) in [(Method::GET, $get), (Method::POST, $post)] {
                let outcome = sent($act, method.clone()).await;
                assert_eq!(outcome.reached, times, "{method}: {:?}", outcome.result);
                assert_eq!(outcome.health.state, state(effect, times), "{method}");
                assert_eq!(outcome.health.counts, counted(effect, times), "{method}");
            }
        }
    )*};
}

cells! {
    a_success_is_not_retried: MockResponse::ok("{}"), 1, 1, Success;
    no_content_is_not_retried: MockResponse::status(204), 1, 1, Success;
    bad_json_is_not_retried: MockResponse::bad_json(), 1, 1, Success;
    a_304_is_not_retried: MockResponse::status(304), 1, 1, Success;
    a_bad_request_is_not_retried: MockResponse::status(400), 1, 1, Neutral;
    an_unauthorised_call_is_not_retried: MockResponse::status(401), 1, 1, Neutral;
    a_forbidden_call_is_not_retried: MockResponse::status(403), 1, 1, Neutral;
    a_missing_resource_is_not_retried: MockResponse::status(404), 1, 1, Neutral;
    an_unprocessable_call_is_not_retried: MockResponse::status(422), 1, 1, Neutral;
    a_ban_is_not_retried: MockResponse::status(418), 1, 1, Banned;
    a_throttled_call_is_retried_if_idempotent: ThrottleResponse::new(429, Duration::ZERO).with_retry_after(outflow_mock::RetryAfterForm::Nothing), 3, 1, Throttled;
    an_internal_error_is_retried_if_idempotent: MockResponse::status(500), 3, 1, ServerFailed;
    a_bad_gateway_is_retried_if_idempotent: MockResponse::status(502), 3, 1, ServerFailed;
    unavailability_is_retried_if_idempotent: MockResponse::status(503), 3, 1, ServerFailed;
    a_gateway_timeout_is_retried_if_idempotent: MockResponse::status(504), 3, 1, ServerFailed;
    a_reset_is_retried_if_idempotent: Fault::ResetBeforeHead, 3, 1, NetworkFailed;
    a_reset_with_the_body_unread_is_retried_if_idempotent: Fault::ResetUnread, 3, 1, NetworkFailed;
    a_silent_close_is_retried_if_idempotent: Fault::CloseBeforeHead, 3, 1, NetworkFailed;
    silence_is_retried_if_idempotent: Fault::Hang, 3, 1, NetworkFailed;
    a_cut_body_is_retried_if_idempotent: Fault::CutBody, 3, 1, NetworkFailed;
    a_cut_chunk_is_retried_if_idempotent: Fault::CutChunk, 3, 1, NetworkFailed;
    a_reset_in_the_body_is_retried_if_idempotent: Fault::ResetInBody, 3, 1, NetworkFailed;
    garbage_is_not_retried: Fault::Garbage, 1, 1, NetworkFailed;
    a_changed_protocol_is_not_retried: Fault::Unasked101, 1, 1, NetworkFailed;
}

// Every method that is idempotent by definition, and those without that property.
#[tokio::test]
async fn the_method_decides_the_retry() {
    for (method, times) in [
        (Method::GET, 3),
        (Method::HEAD, 3),
        (Method::OPTIONS, 3),
        (Method::PUT, 3),
        (Method::DELETE, 3),
        (Method::POST, 1),
        (Method::PATCH, 1),
    ] {
        let outcome = sent(MockResponse::status(500), method.clone()).await;
        assert_eq!(outcome.reached, times, "{method}");
    }
}
