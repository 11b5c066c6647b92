//! Ends of claims, as the script takes them.

use super::call::Caller;
use super::fault::strange;
use super::record::{micros, seven, six};
use super::reply::Reply;
use crate::error::StoreError;
use crate::jobs::Answer;
use crate::name::Name;
use crate::settle::{End, Kept, Park, PutOff, Settled, Settlement};
use redis::Value;

pub(super) async fn settle(
    caller: &Caller,
    session: &Name,
    ends: Vec<Settlement>,
) -> Answer<Vec<Settled>> {
    if ends.len() > MOST_ENDS {
        return Err(StoreError::refused(format_args!(
            "{} ends would keep redis from everybody else: settle at most {MOST_ENDS} at once",
            ends.len()
        )));
    }
    let claims: Vec<u8> = ends.iter().flat_map(|end| six(end.token.claim)).collect();
    let mut call = caller
        .call(&caller.scripts.settle)
        .arg(session.as_str())
        .arg(claims);
    if let Some(tooks) = tooks(&ends) {
        call.push(tooks);
    } else {
        call.push("");
        for end in &ends {
            call.push(form(&end.end));
        }
    }
    match caller.run_safely(call).await? {
        Value::Int(1) => Ok(vec![Settled::Done; ends.len()]),
        answers => {
            let mut reply = Reply::new(answers)?;
            ends.iter().map(|_| settled(reply.value()?)).collect()
        }
    }
}

/// How long each took, if all are simply done and none comes twice: the script has a shorter way for them.
fn tooks(ends: &[Settlement]) -> Option<Vec<u8>> {
    if has_twins(ends) {
        return None;
    }
    let mut tooks = Vec::with_capacity(7 * ends.len());
    for end in ends {
        let End::Done { took, result: None } = &end.end else {
            return None;
        };
        tooks.extend(seven(micros(*took)));
    }
    Some(tooks)
}

fn has_twins(ends: &[Settlement]) -> bool {
    let mut claims: Vec<_> = ends.iter().map(|end| end.token.claim).collect();
    claims.sort_unstable();
    claims
        .windows(2)
        .any(|two| matches!(two, [one, other] if one == other))
}

/// How it ended, three numbers, and what belongs to it.
struct Form {
    kind: u8,
    numbers: [u64; 3],
    rest: Vec<u8>,
}

fn form(end: &End) -> Vec<u8> {
    let form = Form::of(end);
    let mut bytes = Vec::with_capacity(22 + form.rest.len());
    bytes.push(form.kind);
    for number in form.numbers {
        bytes.extend(seven(number));
    }
    bytes.extend(form.rest);
    bytes
}

impl Form {
    fn of(end: &End) -> Self {
        match end {
            End::Done { took, result } => {
                Self::new(1, [micros(*took), 0, 0], kept(result.as_ref()))
            }
            End::Retry {
                after,
                words,
                result,
            } => {
                let (length, rest) = told_and_kept(words, result.as_ref());
                Self::new(2, [length, micros(*after), 0], rest)
            }
            End::RetryPutOff { by, words, result } => {
                let (length, told) = told_and_kept(words, result.as_ref());
                let mut rest = seven(length).to_vec();
                rest.extend(told);
                Self::new(8, put_off(*by), rest)
            }
            End::Failed { words, result } => {
                let (length, rest) = told_and_kept(words, result.as_ref());
                Self::new(3, [length, 0, 0], rest)
            }
            End::Throttled { after, park } => {
                let whole_lane = u64::from(*park == Park::Lane);
                Self::new(4, [micros(*after), whole_lane, 0], Vec::new())
            }
            End::Returned => Self::new(5, [0; 3], Vec::new()),
            End::Interrupted => Self::new(5, [1, 0, 0], Vec::new()),
            End::PutOff(by @ PutOff::Fixed(_)) => Self::new(6, put_off(*by), Vec::new()),
            End::PutOff(by @ PutOff::Formula { .. }) => Self::new(7, put_off(*by), Vec::new()),
        }
    }

    const fn new(kind: u8, numbers: [u64; 3], rest: Vec<u8>) -> Self {
        Self {
            kind,
            numbers,
            rest,
        }
    }
}

/// The shortest and the longest wait, and the rate of all.
fn put_off(by: PutOff) -> [u64; 3] {
    match by {
        PutOff::Fixed(span) => [micros(span), micros(span), 0],
        PutOff::Formula { rule, global } => [micros(rule.base()), micros(rule.max()), global],
    }
}

/// What is kept: its number, for how long, and the body.
fn kept(result: Option<&Kept>) -> Vec<u8> {
    let Some(kept) = result else {
        return Vec::new();
    };
    let mut bytes = Vec::with_capacity(9 + kept.body.len());
    bytes.extend(kept.status.to_be_bytes());
    bytes.extend(seven(micros(kept.keep)));
    bytes.extend_from_slice(&kept.body);
    bytes
}

/// Words about a failure and how long they are, then what is kept.
fn told_and_kept(words: &str, result: Option<&Kept>) -> (u64, Vec<u8>) {
    let mut rest = told(words);
    let length = u64::try_from(rest.len()).unwrap_or(0);
    rest.extend(kept(result));
    (length, rest)
}

/// Words about a failure, as many as are worth keeping.
fn told(words: &str) -> Vec<u8> {
    let mut end = words.len().min(MOST_WORDS);
    while !words.is_char_boundary(end) {
        end -= 1;
    }
    words.as_bytes().iter().take(end).copied().collect()
}

fn settled(value: Value) -> Answer<Settled> {
    match value {
        Value::Int(1) => Ok(Settled::Done),
        Value::Int(2) => Ok(Settled::Buried),
        Value::Int(3) => Ok(Settled::Waits),
        Value::Int(5) => Ok(Settled::Cancelled),
        Value::Int(6) => Ok(Settled::Fenced),
        Value::Int(_) => Err(strange()),
        value => {
            let mut parts = Reply::new(value)?;
            Ok(Settled::PutOff {
                backoff: parts.span()?,
                non_ready: parts.number()?,
                speed: parts.number()?,
            })
        }
    }
}

/// A message and a little more; ten of them are kept with each job.
const MOST_WORDS: usize = 1_000;

/// Some milliseconds of the server's time.
const MOST_ENDS: usize = 5_000;
