//! Faults of the API, their times, and the failures that they explain.
//!
//! A cycle of slots, each with one fault in its middle and calm around it, so that every fault starts and ends
//! in a healthy program. A fault explains failures until the program has had time to recover; later failures
//! are faults of ours.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use outflow_core::Share;
use outflow_mock::{Fault, MockApi, MockResponse, Script, ScriptMatch, ScriptedFault};
use tokio::time::sleep;

use super::mock_api;
use crate::clock;

/// The faults, one after another.
#[derive(Debug, Default)]
pub(super) struct Phases {
    /// Milliseconds since the start: a call that started before this may fail.
    explained_until: AtomicU64,
}

impl Phases {
    /// Makes an API with this limit a second misbehave, for ever.
    pub(super) async fn conduct(&self, api: &MockApi, limit: u32) {
        for seed in 0.. {
            for fault in FAULTS {
                let misbehaviour = fault(seed);
                let aftermath = misbehaviour.aftermath();
                sleep(BEFORE).await;
                self.explain(clock::since_begin() + DURING + aftermath);
                begin(api, misbehaviour, limit);
                sleep(DURING).await;
                end(api, limit);
                sleep(aftermath + CALM).await;
            }
        }
    }

    /// Returns the time in which each fault occurs once.
    pub(super) fn cycle() -> Duration {
        let slots = FAULTS.iter().map(|fault| BEFORE + DURING + fault(0).aftermath() + CALM);
        slots.sum()
    }

    /// Returns the conditions of a call that started then and ends now.
    pub(super) fn condition_during(&self, begun: Duration) -> ApiCondition {
        let until = self.explained_until.load(Ordering::Relaxed);
        if begun.as_millis() < u128::from(until) {
            ApiCondition::Foul
        } else {
            ApiCondition::Fair
        }
    }

    fn explain(&self, until: Duration) {
        let millis = u64::try_from(until.as_millis()).unwrap_or(u64::MAX);
        self.explained_until.fetch_max(millis, Ordering::Relaxed);
    }
}

/// State of the API that may explain a failed call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ApiCondition {
    /// The API explains no failure.
    Fair,
    /// The API misbehaves, or did so a moment ago.
    Foul,
}

/// Fault of the API.
enum ApiFault {
    /// It allows a third of its limit, and reports it only by throttling.
    Stingy,
    /// A script of responses.
    Scripted(Script),
}

impl ApiFault {
    /// Returns how long its effects may last after its end.
    const fn aftermath(&self) -> Duration {
        match self {
            Self::Stingy => RELEARNING,
            Self::Scripted(_) => AFTERMATH,
        }
    }
}

fn begin(api: &MockApi, misbehaviour: ApiFault, limit: u32) {
    match misbehaviour {
        ApiFault::Stingy => api.limit_to(mock_api::quotas(limit / 3)),
        ApiFault::Scripted(script) => api.rewrite(script),
    }
}

fn end(api: &MockApi, limit: u32) {
    api.rewrite(Script::new());
    api.limit_to(mock_api::quotas(limit));
}

const FAULTS: [fn(u64) -> ApiFault; 5] = [
    |_| ApiFault::Scripted(gone()),
    |_| ApiFault::Stingy,
    |seed| ApiFault::Scripted(slow(seed)),
    |seed| ApiFault::Scripted(failing(seed)),
    |seed| ApiFault::Scripted(cut(seed)),
];

fn failing(seed: u64) -> Script {
    Script::new()
        .rule(chance(30, seed), MockResponse::status(500))
        .rule(chance(20, seed), MockResponse::status(503))
}

fn gone() -> Script {
    Script::new().rule(ScriptMatch::always(), Fault::ResetBeforeHead)
}

/// Answers later than an attempt may take, and sometimes never.
fn slow(seed: u64) -> Script {
    Script::new()
        .rule(chance(5, seed), Fault::Hang)
        .rule(chance(30, seed), ScriptedFault::Late(Duration::from_secs(3)))
}

fn cut(seed: u64) -> Script {
    Script::new().rule(chance(30, seed), Fault::CutBody)
}

fn chance(percent: u32, seed: u64) -> ScriptMatch {
    ScriptMatch::always().by_chance(Share::percent(percent), seed)
}

/// A fault for a quarter of a minute, time to recover, and time without faults.
const BEFORE: Duration = Duration::from_secs(15);
const DURING: Duration = Duration::from_secs(15);
const CALM: Duration = Duration::from_secs(10);

/// Longest recovery by the configuration: pauses of some seconds, five probes at three a second, a few steps up
/// from half speed, and as much again for chance.
const AFTERMATH: Duration = Duration::from_secs(20);

/// A lowered limit is not raised for up to eighty windows of a second, and then grows by a few per cent a
/// second.
const RELEARNING: Duration = Duration::from_secs(150);
