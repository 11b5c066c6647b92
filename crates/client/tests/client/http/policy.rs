//! The policy table through a real socket: each end of an attempt, with a method that may be
//! repeated and with one that may not, and what it is held against the API.

use std::time::Duration;

use http::Method;
use outflow::core::{HealthSnapshot, HealthState, OutcomeClass, OutcomeCounts};
use outflow_mock::{Fault, MockResponse, Script, ScriptMatch, ThrottleResponse};

use super::support::{over_sockets, scripted};

/// What became of a call.
struct Went {
    reached: usize,
    told: Result<u16, String>,
    health: HealthSnapshot,
}

/// A call to a server that always does this, with two retries allowed.
async fn sent(act: impl Into<outflow_mock::ScriptedFault>, method: Method) -> Went {
    let strict = scripted(Script::new().rule(ScriptMatch::always(), act));
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
    let door = client.upstream("strict").expect("there");
    Went {
        reached: strict.audit().attempts("/cell"),
        told,
        health: door.report().health.remove(0).snapshot,
    }
}

/// Where the machine is when so many attempts in a row had this effect.
const fn state(effect: OutcomeClass, times: usize) -> HealthState {
    match effect {
        OutcomeClass::Banned => HealthState::Sleep,
        OutcomeClass::Throttled if times >= 3 => HealthState::Throttle,
        _ => HealthState::Normal,
    }
}

/// What the machine counts when so many attempts had this effect. A state that was just entered has
/// seen nothing yet.
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
        // The first number is what a GET reaches, the second what a POST does, and the word is what
        // each attempt is to the API's health.
        #[tokio::test]
        async fn $name() {
            let effect = OutcomeClass::$effect;
            for (method, times) in [(Method::GET, $get), (Method::POST, $post)] {
                let went = sent($act, method.clone()).await;
                assert_eq!(went.reached, times, "{method}: {:?}", went.told);
                assert_eq!(went.health.state, state(effect, times), "{method}");
                assert_eq!(went.health.counts, counted(effect, times), "{method}");
            }
        }
    )*};
}

cells! {
    success_is_not_repeated: MockResponse::ok("{}"), 1, 1, Success;
    no_content_is_not_repeated: MockResponse::status(204), 1, 1, Success;
    bad_json_is_not_repeated: MockResponse::bad_json(), 1, 1, Success;
    a_redirect_nowhere_is_not_repeated: MockResponse::status(304), 1, 1, Success;
    a_bad_request_is_not_repeated: MockResponse::status(400), 1, 1, Neutral;
    an_unauthorised_call_is_not_repeated: MockResponse::status(401), 1, 1, Neutral;
    a_forbidden_call_is_not_repeated: MockResponse::status(403), 1, 1, Neutral;
    what_is_not_found_is_not_repeated: MockResponse::status(404), 1, 1, Neutral;
    what_cannot_be_processed_is_not_repeated: MockResponse::status(422), 1, 1, Neutral;
    a_ban_is_not_repeated: MockResponse::status(418), 1, 1, Banned;
    a_refusal_is_repeated_where_that_is_harmless: ThrottleResponse::new(429, Duration::ZERO).with_retry_after(outflow_mock::RetryAfterForm::Nothing), 3, 1, Throttled;
    an_internal_error_is_repeated_where_that_is_harmless: MockResponse::status(500), 3, 1, ServerFailed;
    a_bad_gateway_is_repeated_where_that_is_harmless: MockResponse::status(502), 3, 1, ServerFailed;
    unavailability_is_repeated_where_that_is_harmless: MockResponse::status(503), 3, 1, ServerFailed;
    a_gateway_timeout_is_repeated_where_that_is_harmless: MockResponse::status(504), 3, 1, ServerFailed;
    a_reset_is_repeated_where_that_is_harmless: Fault::ResetBeforeHead, 3, 1, NetworkFailed;
    a_reset_with_the_body_unread_is_repeated_where_that_is_harmless: Fault::ResetUnread, 3, 1, NetworkFailed;
    a_silent_close_is_repeated_where_that_is_harmless: Fault::CloseBeforeHead, 3, 1, NetworkFailed;
    silence_is_repeated_where_that_is_harmless: Fault::Hang, 3, 1, NetworkFailed;
    a_cut_body_is_repeated_where_that_is_harmless: Fault::CutBody, 3, 1, NetworkFailed;
    a_cut_chunk_is_repeated_where_that_is_harmless: Fault::CutChunk, 3, 1, NetworkFailed;
    a_reset_in_the_body_is_repeated_where_that_is_harmless: Fault::ResetInBody, 3, 1, NetworkFailed;
    garbage_is_repeated_where_that_is_harmless: Fault::Garbage, 3, 1, NetworkFailed;
    a_changed_protocol_is_repeated_where_that_is_harmless: Fault::Unasked101, 3, 1, NetworkFailed;
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
        let went = sent(MockResponse::status(500), method.clone()).await;
        assert_eq!(went.reached, times, "{method}");
    }
}
