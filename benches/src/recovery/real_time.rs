//! Two short outages in real time, for ours and the peers at once.

use std::sync::Arc;
use std::time::Duration;

use outflow_mock::{Latency, MockApi, Quota, RetryAfterForm, Script, ScriptMatch, Server, ThrottleResponse};
use parking_lot::Mutex;
use tokio::time::{Instant, sleep, sleep_until};

use super::peers::{RecoveryPeer, all_peers};
use crate::figure::{Figure, Goal};
use crate::tasks::{self, Flavour};

/// Runs both outages of all contenders together.
pub(super) fn figures() -> Vec<Figure> {
    let Ok(runtime) = Flavour::Multi.runtime() else {
        return vec![Figure::missing("real_time", "", "missing: no runtime")];
    };
    runtime.block_on(async {
        let (outage, storm) = tokio::join!(ShortOutage::play(503), ShortOutage::play(429));
        let mut figures = outage.figures("503 for 6 s");
        figures.extend(storm.figures("429 for 6 s"));
        figures
    })
}

/// One outage of every contender.
struct ShortOutage {
    runs: Vec<(&'static str, Option<PeerRun>)>,
}

/// Figures of one contender.
struct PeerRun {
    seconds_to_full: f64,
    sent_per_second: f64,
    refused: f64,
}

impl ShortOutage {
    async fn play(status: u16) -> Self {
        let stages = all_peers().into_iter().map(|(name, build)| async move {
            let run = match PeerStage::start(status).await {
                Some(stage) => stage.run(build).await,
                None => None,
            };
            (name, run)
        });
        Self {
            runs: futures_util::future::join_all(stages).await,
        }
    }

    fn figures(&self, outage: &str) -> Vec<Figure> {
        let parts: [PeerFigure; 3] = [
            ("real_time_seconds_to_95", |run| run.seconds_to_full),
            ("real_time_sent_per_s", |run| run.sent_per_second),
            ("real_time_refused", |run| run.refused),
        ];
        let mut figures = Vec::new();
        for (part, value) in parts {
            let name = format!("{part}: {outage}");
            let values: Vec<_> = self
                .runs
                .iter()
                .map(|(peer, run)| (*peer, run.as_ref().map(value)))
                .collect();
            let ours: Vec<f64> = values.first().and_then(|(_, value)| *value).into_iter().collect();
            for (peer, value) in values.iter().skip(1) {
                if value.is_none() {
                    figures.push(Figure::missing(&name, peer, "missing: it could not be built"));
                }
            }
            let theirs: Vec<_> = values
                .iter()
                .skip(1)
                .filter_map(|(peer, value)| Some((*peer, [(*value)?])))
                .collect();
            let theirs: Vec<_> = theirs.iter().map(|(peer, value)| (*peer, &value[..])).collect();
            figures.extend(Figure::with_peers(&name, Goal::Shown, &ours, &theirs));
        }
        figures
    }
}

/// The API of one contender.
struct PeerStage {
    api: MockApi,
    server: Server,
}

impl PeerStage {
    async fn start(status: u16) -> Option<Self> {
        let failing = ThrottleResponse::new(status, Duration::ZERO).with_retry_after(RetryAfterForm::Nothing);
        let span = ScriptMatch::always().between(BEGIN..HEAL);
        let way = Latency::Fixed(Duration::from_millis(10));
        let api = MockApi::builder()
            .limit(Quota::sliding("35/s".parse().ok()?))
            .refusing(429, RetryAfterForm::Nothing)
            .script(Script::new().rule(span, failing))
            .delay(way, way)
            .build();
        let api = api.ok()?;
        let server = api.listen().await.ok()?;
        Some(Self { api, server })
    }

    /// Keeps the limit in use by workers, until some time after the outage.
    async fn run(self, build: fn(&str) -> Option<Arc<dyn RecoveryPeer>>) -> Option<PeerRun> {
        let (origin, server_origin) = (Instant::now(), self.api.now());
        let peer = build(&self.server.url())?;
        let good = Arc::new(Mutex::new(Vec::new()));
        for _ in 0..WORKERS {
            let (peer, good) = (Arc::clone(&peer), Arc::clone(&good));
            tasks::start(async move {
                while origin.elapsed() < END {
                    if peer.call().await {
                        good.lock().push(origin.elapsed().as_secs_f64());
                    } else {
                        sleep(PAUSE).await;
                    }
                }
            });
        }
        sleep_until(origin + END).await;
        let audit = self.api.audit();
        let since = |at: outflow_core::Nanos| at.since(server_origin);
        let dead = audit
            .arrivals()
            .iter()
            .filter(|call| (BEGIN..HEAL).contains(&since(call.at)))
            .count();
        let good = good.lock().clone();
        Some(PeerRun {
            seconds_to_full: seconds_to_full(&good),
            sent_per_second: approx(dead) / HEAL.saturating_sub(BEGIN).as_secs_f64(),
            refused: approx(audit.refused()),
        })
    }
}

/// Returns the seconds after healing until 95 % of the limit is used, and for five seconds.
fn seconds_to_full(good: &[f64]) -> f64 {
    let within = |from: f64, span: f64| approx(good.iter().filter(|at| (from..from + span).contains(*at)).count());
    let heal = HEAL.as_secs_f64();
    let mut after = 0.0;
    while heal + after + KEPT <= END.as_secs_f64() {
        if within(heal + after, 2.0) >= 0.95 * 70.0 && within(heal + after, KEPT) >= 0.95 * 35.0 * KEPT {
            return after;
        }
        after += 0.1;
    }
    f64::from(u32::try_from(END.saturating_sub(HEAL).as_secs()).unwrap_or(u32::MAX))
}

fn approx(count: usize) -> f64 {
    u32::try_from(count).map_or(f64::MAX, f64::from)
}

/// The outage begins in a busy hour.
const BEGIN: Duration = Duration::from_secs(4);
const HEAL: Duration = Duration::from_secs(10);
/// A contender that is not back then is reported with the time since the healing.
const END: Duration = Duration::from_secs(45);
const KEPT: f64 = 5.0;
const WORKERS: usize = 24;
const PAUSE: Duration = Duration::from_millis(200);

/// A figure's name, and its value of a run.
type PeerFigure = (&'static str, fn(&PeerRun) -> f64);
