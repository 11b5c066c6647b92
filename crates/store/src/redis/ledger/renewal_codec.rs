//! Renewals and their answers as the scripts read and write them: whole numbers of eight bytes.

use std::time::Duration;

use bytes::Bytes;
use outflow_core::{
    CountBy, LeaseAnswer, LeaseRequest, LeaseUnits, LedgerError, Limit, LimitKind, LimitUsage, MAX_LIMITS, Rate,
    RenewalRefusal, SharedFacts,
};

use crate::contract::StoreResult;
use crate::redis::error_map::unexpected_reply;

/// Arguments of one renewal, after prefix, identity and account.
pub(super) struct RenewalArguments {
    pub(super) holder: [u8; 8],
    pub(super) numbers: Vec<u8>,
    pub(super) rules: Vec<u8>,
    pub(super) arrivals: Vec<u8>,
    pub(super) facts: Vec<u8>,
}

impl RenewalArguments {
    pub(super) fn new(request: &LeaseRequest) -> Self {
        let limits = request
            .limits
            .get(..request.limits.len().min(MAX_LIMITS))
            .unwrap_or_default();
        let facts = request.facts.as_ref();
        let (based_on, words, lifetime) = match facts {
            Some((based_on, words, lifetime)) => (*based_on, words.as_slice(), *lifetime),
            None => (0, &[][..], Duration::ZERO),
        };
        let numbers = [
            request.number,
            request.joined,
            request.returned.calls,
            request.returned.cost,
            request.wanted.units.calls,
            request.wanted.units.cost,
            request.wanted.first,
            nanos(request.ttl),
            nanos(request.timeout),
            request.facts_seen,
            u64::from(facts.is_some()),
            based_on,
            nanos(lifetime),
        ];
        let arrivals = request.arrived.iter().flat_map(|run| {
            let ages = run.ages.iter().take(limits.len()).map(|age| nanos(*age));
            [run.units.calls, run.units.cost].into_iter().chain(ages)
        });
        Self {
            holder: request.holder.to_be_bytes(),
            numbers: packed(numbers),
            rules: packed(limits.iter().flat_map(rule_numbers)),
            arrivals: packed(arrivals),
            facts: words.iter().flat_map(|word| word.to_be_bytes()).collect(),
        }
    }
}

/// Reply to one renewal, with the time of the server.
pub(super) struct RenewalReply {
    pub(super) server_time: Duration,
    pub(super) answer: Result<LeaseAnswer, LedgerError>,
}

impl RenewalReply {
    pub(super) fn decode(numbers: &[u8], words: &[u8]) -> StoreResult<Self> {
        let numbers = unpacked(numbers)?;
        let [status, server_time, rest @ ..] = numbers.as_slice() else {
            return Err(unexpected_reply());
        };
        let answer = match *status {
            GRANTED => Ok(decode_answer(rest, words)?),
            UNKNOWN_HOLDER => Err(LedgerError::Refused(RenewalRefusal::UnknownHolder)),
            OLD_NUMBER => Err(LedgerError::Refused(RenewalRefusal::OldNumber)),
            _ => return Err(unexpected_reply()),
        };
        Ok(Self {
            server_time: Duration::from_micros(*server_time),
            answer,
        })
    }
}

fn decode_answer(numbers: &[u64], words: &[u8]) -> StoreResult<LeaseAnswer> {
    let [joined, calls, cost, wait, peers, generation, age, limits @ ..] = numbers else {
        return Err(unexpected_reply());
    };
    let facts = generation.checked_sub(1).map(|generation| {
        Ok(SharedFacts {
            generation,
            age: Duration::from_nanos(*age),
            words: unpacked(words)?,
        })
    });
    Ok(LeaseAnswer {
        joined: *joined,
        granted: LeaseUnits::new(*calls, *cost),
        wait: match *wait {
            0 => None,
            ENDLESS.. => Some(Duration::MAX),
            nanos => Some(Duration::from_nanos(nanos - 1)),
        },
        peers: usize::try_from(*peers).map_err(|_| unexpected_reply())?,
        limits: decode_usage(limits)?,
        facts: facts.transpose()?,
    })
}

/// Decodes the limits in force with their usage.
pub(super) fn decode_usage(numbers: &[u64]) -> StoreResult<Vec<LimitUsage>> {
    let (limits, []) = numbers.as_chunks() else {
        return Err(unexpected_reply());
    };
    let usage = limits
        .iter()
        .map(|[kind, measure, window, quantity, capacity, arrived, held]| {
            let kind = match *kind {
                SLIDING => LimitKind::Sliding,
                ALIGNED => LimitKind::Aligned,
                BUCKET => LimitKind::Bucket { burst: *capacity },
                _ => return None,
            };
            Some(LimitUsage {
                kind,
                measure: *CountBy::ALL.get(usize::try_from(*measure).ok()?)?,
                rate: Rate::new(*quantity, Duration::from_nanos(*window)).ok()?,
                arrived: *arrived,
                held: *held,
            })
        });
    usage.collect::<Option<_>>().ok_or_else(unexpected_reply)
}

fn rule_numbers(limit: &Limit) -> [u64; 5] {
    let kind = match limit.kind() {
        // A fixed window begins with its first arrival at the API, which is unknown: a sliding one is within it.
        LimitKind::Sliding | LimitKind::Fixed => SLIDING,
        LimitKind::Aligned => ALIGNED,
        LimitKind::Bucket { .. } => BUCKET,
    };
    let measure = CountBy::ALL.iter().position(|measure| *measure == limit.measure());
    let measure = measure.and_then(|place| u64::try_from(place).ok()).unwrap_or(0);
    let rate = limit.rate();
    [kind, measure, nanos(rate.per()), rate.quantity(), limit.capacity()]
}

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(LARGEST)
}

/// Packs numbers. Larger ones than a double holds exactly become the largest one.
fn packed(numbers: impl IntoIterator<Item = u64>) -> Vec<u8> {
    numbers
        .into_iter()
        .flat_map(|number| number.min(LARGEST).to_be_bytes())
        .collect()
}

/// Reads packed numbers.
pub(super) fn unpacked(bytes: &[u8]) -> StoreResult<Vec<u64>> {
    let (numbers, []) = bytes.as_chunks() else {
        return Err(unexpected_reply());
    };
    Ok(numbers.iter().map(|number| u64::from_be_bytes(*number)).collect())
}

/// Returns the text of a reply.
pub(super) fn text(bytes: &Bytes) -> StoreResult<String> {
    String::from_utf8(bytes.to_vec()).map_err(|_| unexpected_reply())
}

const GRANTED: u64 = 0;
const UNKNOWN_HOLDER: u64 = 1;
const OLD_NUMBER: u64 = 2;
const SLIDING: u64 = 0;
const ALIGNED: u64 = 1;
const BUCKET: u64 = 2;
const ENDLESS: u64 = 1 << 62;
const LARGEST: u64 = 1 << 53;
