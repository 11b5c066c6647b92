//! The callers: readers, writers, streams, short timeouts, wrong names and dropped connections.

mod disconnect;
mod kind;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use fastrand::Rng;
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use tokio::time::{MissedTickBehavior, interval, timeout};

use super::call_counts::CallCounts;
use super::phases::Phases;
use crate::clock;
use crate::tasks;
use kind::Kind;

/// All callers together.
#[derive(Clone)]
pub(super) struct Callers {
    place: Arc<str>,
    client: Client<HttpConnector, Full<Bytes>>,
    phases: Arc<Phases>,
    seen: Arc<CallCounts>,
}

/// Result of a call.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Got {
    /// This status, with the start of its complete body.
    Whole(u16, String),
    /// This status, and an incomplete body.
    Part(u16),
    /// No response.
    Nothing(String),
}

impl Callers {
    /// Returns callers of this address.
    pub(super) fn new(place: String, phases: Arc<Phases>, seen: Arc<CallCounts>) -> Self {
        Self {
            place: place.into(),
            client: Client::builder(TokioExecutor::new())
                .pool_max_idle_per_host(MOST_IDLE)
                .pool_idle_timeout(LONGEST_IDLE)
                .build_http(),
            phases,
            seen,
        }
    }

    /// Makes calls at this rate, for ever. It skips missed calls, so that it does not load a busy machine
    /// further.
    pub(super) async fn call(&self, rate: u32) {
        let mut ticks = interval(Duration::from_secs(1) / rate.max(1));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let mut rng = Rng::with_seed(7);
        for number in 0.. {
            ticks.tick().await;
            let kind = Kind::pick(&mut rng);
            self.seen.begins();
            tasks::start(self.clone().one(kind, number, rng.fork()));
        }
    }

    async fn one(self, kind: Kind, number: u64, mut rng: Rng) {
        let begun = clock::since_begin();
        match kind {
            Kind::HangUp => match disconnect::hang_up(&self.place, &mut rng).await {
                Ok(()) => self.seen.may_be_governed(),
                Err(error) => self.seen.surprise(|| format!("{kind:?}: {error}")),
            },
            Kind::Knock => {
                if let Err(error) = disconnect::knock(&self.place).await {
                    self.seen.surprise(|| format!("{kind:?}: {error}"));
                }
            }
            _ => self.asked(kind, number, &mut rng, begun).await,
        }
        self.seen.ends();
    }

    async fn asked(&self, kind: Kind, number: u64, rng: &mut Rng, begun: Duration) {
        let Ok(request) = kind.request(&self.place, number, rng) else {
            return self.seen.surprise(|| format!("{kind:?}: not a request"));
        };
        if kind.is_governed() {
            self.seen.is_governed();
        }
        let got = timeout(LONGEST, self.answered(request)).await;
        let got = got.unwrap_or_else(|_| Got::Nothing("no response within the time limit".to_owned()));
        if !matches!(got, Got::Whole(200..300, _)) && !kind.cannot_succeed() {
            self.seen.fails();
        }
        if !kind.expects(&got, self.phases.condition_during(begun)) {
            self.seen
                .surprise(|| format!("{kind:?} at {:.1} s: {got:?}", begun.as_secs_f64()));
        }
    }

    async fn answered(&self, request: http::Request<Full<Bytes>>) -> Got {
        let answer = match self.client.request(request).await {
            Ok(answer) => answer,
            Err(error) => return Got::Nothing(format!("{error:?}")),
        };
        let status = answer.status().as_u16();
        match answer.into_body().collect().await {
            Ok(body) => {
                let text = String::from_utf8_lossy(&body.to_bytes()).into_owned();
                Got::Whole(status, text.chars().take(ENOUGH).collect())
            }
            Err(_) => Got::Part(status),
        }
    }
}

/// Enough without faults. Additional connections of an outage are closed after it, so that a descriptor that
/// stays is a leak.
const MOST_IDLE: usize = 16;

/// Well before the program closes an idle connection. A request that meets that close is neither answered nor
/// counted, and looks like a lost one.
const LONGEST_IDLE: Duration = Duration::from_secs(5);

/// Far longer than the configuration lets any call take.
const LONGEST: Duration = Duration::from_secs(40);

/// Bytes of a body that a finding shows.
const ENOUGH: usize = 300;
