//! Whoever calls: readers, writers, streams, the impatient, the mistaken and those who hang up.

mod kind;
mod leaving;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use fastrand::Rng;
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use tokio::time::{MissedTickBehavior, interval, timeout};

use super::phases::Phases;
use super::seen::Seen;
use crate::clock;
use crate::tasks;
use kind::Kind;

/// All callers together.
#[derive(Clone)]
pub(super) struct Callers {
    place: Arc<str>,
    client: Client<HttpConnector, Full<Bytes>>,
    phases: Arc<Phases>,
    seen: Arc<Seen>,
}

/// What a caller got.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Got {
    /// This status, with the beginning of its body, which came whole.
    Whole(u16, String),
    /// This status, and not all of its body.
    Part(u16),
    /// No answer.
    Nothing(String),
}

impl Callers {
    /// Those who call there.
    pub(super) fn new(place: String, phases: Arc<Phases>, seen: Arc<Seen>) -> Self {
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

    /// Calls so often a second, for ever. A moment that was missed stays missed: a machine that was busy
    /// must not be made busier.
    pub(super) async fn call(&self, rate: u32) {
        let mut ticks = interval(Duration::from_secs(1) / rate.max(1));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let mut rng = Rng::with_seed(7);
        for number in 0.. {
            ticks.tick().await;
            let kind = Kind::drawn(&mut rng);
            self.seen.begins();
            tasks::start(self.clone().one(kind, number, rng.fork()));
        }
    }

    async fn one(self, kind: Kind, number: u64, mut rng: Rng) {
        let begun = clock::since_begin();
        match kind {
            Kind::HangUp => match leaving::hang_up(&self.place, &mut rng).await {
                Ok(()) => self.seen.may_be_governed(),
                Err(error) => self.seen.surprise(|| format!("{kind:?}: {error}")),
            },
            Kind::Knock => {
                if let Err(error) = leaving::knock(&self.place).await {
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
        let got = got.unwrap_or_else(|_| Got::Nothing("no answer for long".to_owned()));
        if !matches!(got, Got::Whole(200..300, _)) && !kind.is_mistaken() {
            self.seen.fails();
        }
        if !kind.expects(&got, self.phases.weather_of(begun)) {
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

/// As many as are busy on a good day. What an outage opened besides is closed after it, so that a
/// descriptor that stays is one that leaks.
const MOST_IDLE: usize = 16;

/// Well before the program closes a connection that nobody uses: a request that meets that close on its
/// way is neither answered nor counted, and nobody can tell it from one that was lost.
const LONGEST_IDLE: Duration = Duration::from_secs(5);

/// Far longer than the configuration lets any call take: who waits so long waits for ever.
const LONGEST: Duration = Duration::from_secs(40);

/// Of a body, to see what is wrong.
const ENOUGH: usize = 300;
