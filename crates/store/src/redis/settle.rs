//! Settlements, as the script takes them.

use super::error_map::unexpected_reply;
use super::job_codec::{micros, seven_bytes, six_bytes};
use super::reply::ScriptReply;
use super::script_call::ScriptRunner;
use crate::contract::StoreResult;
use crate::error::StoreError;
use crate::name::Name;
use crate::settle::{CooldownScope, Defer, JobEnd, SettleResult, Settlement, StoredResult};
use redis::Value;

pub(super) async fn settle(
    runner: &ScriptRunner,
    session: &Name,
    ends: Vec<Settlement>,
) -> StoreResult<Vec<SettleResult>> {
    if ends.len() > MAX_SETTLEMENTS {
        return Err(StoreError::refused(format_args!(
            "{} settlements would block redis for too long: settle at most {MAX_SETTLEMENTS} at once",
            ends.len()
        )));
    }
    let claims: Vec<u8> = ends.iter().flat_map(|end| six_bytes(end.token.claim)).collect();
    let mut call = runner.call(&runner.scripts.settle).arg(session.as_str()).arg(claims);
    let durations = encode_durations(&ends);
    call.push(durations.as_deref().unwrap_or_default());
    call.push(encode_ages(&ends));
    if durations.is_none() {
        for end in &ends {
            call.push(encode_end(&end.end));
        }
    }
    match runner.run_replicated(call).await? {
        Value::Int(1) => Ok(vec![SettleResult::Done; ends.len()]),
        results => {
            let mut reply = ScriptReply::new(results)?;
            ends.iter().map(|_| decode_result(reply.value()?)).collect()
        }
    }
}

/// Returns the durations if all claims are simply done and none comes twice: the script has a fast
/// path for them.
fn encode_durations(ends: &[Settlement]) -> Option<Vec<u8>> {
    if has_duplicates(ends) {
        return None;
    }
    let mut durations = Vec::with_capacity(7 * ends.len());
    for end in ends {
        let JobEnd::Done { took, result: None } = &end.end else {
            return None;
        };
        durations.extend(seven_bytes(micros(*took)));
    }
    Some(durations)
}

/// Returns the ages of all calls, each with one added: 0 is a call that was never sent.
fn encode_ages(ends: &[Settlement]) -> Vec<u8> {
    let age = |end: &Settlement| end.arrived.map_or(0, |age| micros(age).saturating_add(1));
    ends.iter().flat_map(|end| seven_bytes(age(end))).collect()
}

fn has_duplicates(ends: &[Settlement]) -> bool {
    let mut claims: Vec<_> = ends.iter().map(|end| end.token.claim).collect();
    claims.sort_unstable();
    claims.windows(2).any(|two| matches!(two, [one, other] if one == other))
}

/// Encoded settlement: kind, four numbers, and the rest.
struct SettleForm {
    kind: u8,
    numbers: [u64; 4],
    rest: Vec<u8>,
}

fn encode_end(end: &JobEnd) -> Vec<u8> {
    let form = SettleForm::from_end(end);
    let mut bytes = Vec::with_capacity(29 + form.rest.len());
    bytes.push(form.kind);
    for number in form.numbers {
        bytes.extend(seven_bytes(number));
    }
    bytes.extend(form.rest);
    bytes
}

impl SettleForm {
    fn from_end(end: &JobEnd) -> Self {
        match end {
            JobEnd::Done { took, result } => Self::new(1, [micros(*took), 0, 0, 0], encode_result(result.as_ref())),
            JobEnd::Retry { after, message, result } => {
                let (length, rest) = encode_outcome(message, result.as_ref());
                Self::new(2, [length, micros(*after), 0, 0], rest)
            }
            JobEnd::RetryDeferred { by, message, result } => {
                let (length, outcome) = encode_outcome(message, result.as_ref());
                let mut rest = seven_bytes(length).to_vec();
                rest.extend(outcome);
                Self::new(8, encode_defer(*by), rest)
            }
            JobEnd::Failed { message, result } => {
                let (length, rest) = encode_outcome(message, result.as_ref());
                Self::new(3, [length, 0, 0, 0], rest)
            }
            JobEnd::Throttled { after, cooldown: park } => {
                let whole_lane = u64::from(*park == CooldownScope::Lane);
                Self::new(4, [micros(*after), whole_lane, 0, 0], Vec::new())
            }
            JobEnd::ApiFailed { after, message } => {
                let (length, rest) = encode_outcome(message, None);
                Self::new(9, [length, micros(*after), 0, 0], rest)
            }
            JobEnd::Returned => Self::new(5, [0; 4], Vec::new()),
            JobEnd::Interrupted => Self::new(5, [1, 0, 0, 0], Vec::new()),
            JobEnd::Deferred(by @ Defer::Fixed(_)) => Self::new(6, encode_defer(*by), Vec::new()),
            JobEnd::Deferred(by @ Defer::Formula { .. }) => Self::new(7, encode_defer(*by), Vec::new()),
        }
    }

    const fn new(kind: u8, numbers: [u64; 4], rest: Vec<u8>) -> Self {
        Self { kind, numbers, rest }
    }
}

/// Encodes the shortest and the longest wait, the rate of all, and the speed at most.
fn encode_defer(by: Defer) -> [u64; 4] {
    match by {
        Defer::Fixed(span) => [micros(span), micros(span), 0, 0],
        Defer::Formula { rule, global, most } => [micros(rule.base()), micros(rule.max()), global, most.min(MAX_SPEED)],
    }
}

/// A speed above this bounds nothing, and seven bytes hold it.
const MAX_SPEED: u64 = 1 << 50;

/// Encodes the stored result: its number, its retention, and the body.
fn encode_result(result: Option<&StoredResult>) -> Vec<u8> {
    let Some(stored) = result else {
        return Vec::new();
    };
    let mut bytes = Vec::with_capacity(9 + stored.body.len());
    bytes.extend(stored.status.to_be_bytes());
    bytes.extend(seven_bytes(micros(stored.keep)));
    bytes.extend_from_slice(&stored.body);
    bytes
}

/// Encodes the error text and the stored result, and returns the text's length.
fn encode_outcome(message: &str, result: Option<&StoredResult>) -> (u64, Vec<u8>) {
    let mut rest = encode_error(message);
    let length = u64::try_from(rest.len()).unwrap_or(0);
    rest.extend(encode_result(result));
    (length, rest)
}

/// Encodes an error text, cut to the stored length.
fn encode_error(message: &str) -> Vec<u8> {
    let mut end = message.len().min(MAX_ERROR_TEXT);
    while !message.is_char_boundary(end) {
        end -= 1;
    }
    message.as_bytes().iter().take(end).copied().collect()
}

fn decode_result(value: Value) -> StoreResult<SettleResult> {
    match value {
        Value::Int(1) => Ok(SettleResult::Done),
        Value::Int(2) => Ok(SettleResult::DeadLettered),
        Value::Int(3) => Ok(SettleResult::Waits),
        Value::Int(5) => Ok(SettleResult::Cancelled),
        Value::Int(6) => Ok(SettleResult::Fenced),
        Value::Int(_) => Err(unexpected_reply()),
        value => {
            let mut parts = ScriptReply::new(value)?;
            Ok(SettleResult::Deferred {
                backoff: parts.span()?,
                non_ready: parts.number()?,
                speed: parts.number()?,
            })
        }
    }
}

/// A message and a little more; each job stores ten of them.
const MAX_ERROR_TEXT: usize = 1_000;

/// Some milliseconds of the server's time.
const MAX_SETTLEMENTS: usize = 5_000;
