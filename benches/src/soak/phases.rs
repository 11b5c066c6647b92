//! When the API misbehaves, how, and which answers that explains.
//!
//! A cycle of slots, each with another fault in its middle and calm around it, so that every fault begins
//! and ends in a healthy program, again and again. A fault explains failures until the program has had
//! time to recover; what fails after that is a fault of ours.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use outflow_core::Share;
use outflow_mock::{ScriptedFault, MockResponse, Fault, Script, MockApi, ScriptMatch};
use tokio::time::sleep;

use super::upstream;
use crate::clock;

/// The faults, one after another.
#[derive(Debug, Default)]
pub(super) struct Phases {
    /// Since the beginning, in milliseconds: what began before it may fail.
    explained_until: AtomicU64,
}

impl Phases {
    /// Has an API that allows so many calls a second misbehave, for ever.
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

    /// What a call met that began then and is over now.
    pub(super) fn weather_of(&self, begun: Duration) -> Weather {
        let until = self.explained_until.load(Ordering::Relaxed);
        if begun.as_millis() < u128::from(until) {
            Weather::Foul
        } else {
            Weather::Fair
        }
    }

    fn explain(&self, until: Duration) {
        let millis = u64::try_from(until.as_millis()).unwrap_or(u64::MAX);
        self.explained_until.fetch_max(millis, Ordering::Relaxed);
    }
}

/// Whether a call may have failed by the fault of the API.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Weather {
    /// It may not.
    Fair,
    /// It misbehaves, or did so a moment ago.
    Foul,
}

/// How the API misbehaves.
enum Misbehaviour {
    /// It allows a third of what it did, and says so by refusing.
    Stingy,
    /// Whatever stands there.
    Scripted(Script),
}

impl Misbehaviour {
    /// How long what it did may be felt after its end.
    const fn aftermath(&self) -> Duration {
        match self {
            Self::Stingy => RELEARNING,
            Self::Scripted(_) => AFTERMATH,
        }
    }
}

fn begin(api: &MockApi, misbehaviour: Misbehaviour, limit: u32) {
    match misbehaviour {
        Misbehaviour::Stingy => api.limit_to(upstream::quotas(limit / 3)),
        Misbehaviour::Scripted(script) => api.rewrite(script),
    }
}

fn end(api: &MockApi, limit: u32) {
    api.rewrite(Script::new());
    api.limit_to(upstream::quotas(limit));
}

const FAULTS: [fn(u64) -> Misbehaviour; 5] = [
    |_| Misbehaviour::Scripted(gone()),
    |_| Misbehaviour::Stingy,
    |seed| Misbehaviour::Scripted(slow(seed)),
    |seed| Misbehaviour::Scripted(failing(seed)),
    |seed| Misbehaviour::Scripted(cut(seed)),
];

fn failing(seed: u64) -> Script {
    Script::new()
        .rule(chance(30, seed), MockResponse::status(500))
        .rule(chance(20, seed), MockResponse::status(503))
}

fn gone() -> Script {
    Script::new().rule(ScriptMatch::always(), Fault::ResetBeforeHead)
}

/// Later than an attempt may take, and now and then not at all.
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

/// A fault for a quarter of a minute, time to recover, and time to be well.
const BEFORE: Duration = Duration::from_secs(15);
const DURING: Duration = Duration::from_secs(15);
const CALM: Duration = Duration::from_secs(10);

/// What the configuration lets a recovery take: pauses of some seconds, five probes at three a second, and
/// a few steps up from half speed, with as much again for chance.
const AFTERMATH: Duration = Duration::from_secs(20);

/// A limit that was found to be lower is not tried again for up to eighty windows of a second, and grows
/// back by a few per cent a second after that.
const RELEARNING: Duration = Duration::from_secs(150);
