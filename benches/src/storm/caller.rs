//! A caller that makes a thousand calls, a hundred at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use tokio::sync::mpsc;

use crate::clock;
use crate::proxies::RequestForm;
use crate::tasks;

/// Target of the calls, and the reaction to a throttle.
#[derive(Clone)]
pub(super) struct Call {
    pub(super) url: String,
    pub(super) headers: Vec<(&'static str, String)>,
    pub(super) ask: RequestForm,
    pub(super) reaction: ThrottleReaction,
}

impl Call {
    /// Builds the request; `None` if it is invalid.
    fn request(&self) -> Option<Request<Full<Bytes>>> {
        let mut request = Request::builder().method(self.ask.method()).uri(&self.url);
        if self.ask == RequestForm::Chat {
            request = request.header("content-type", "application/json");
        }
        for (name, value) in &self.headers {
            request = request.header(*name, value);
        }
        request.body(Full::new(self.ask.body())).ok()
    }
}

/// Reaction to a throttle.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ThrottleReaction {
    /// Counts as a failure.
    None,
    /// Retries after a random wait below a span that doubles, as clients are advised to.
    FullJitter,
}

/// Result of one storm.
pub(super) struct Seen {
    pub(super) makespan: Duration,
    pub(super) waits: Vec<Duration>,
    pub(super) failed: usize,
}

/// Runs all storms at once.
pub(super) async fn all(calls: Vec<Call>) -> Vec<Seen> {
    let mut storms = Vec::new();
    for call in calls {
        // A result that is read later must not delay it.
        let (sender, receiver) = mpsc::unbounded_channel();
        let left = Arc::new(AtomicU32::new(CALLS));
        let client = Client::builder(TokioExecutor::new()).build_http();
        for _ in 0..TOGETHER {
            let (client, call) = (client.clone(), call.clone());
            tasks::start(one_after_another(client, call, Arc::clone(&left), sender.clone()));
        }
        storms.push((clock::read(), receiver));
    }
    let mut seen = Vec::new();
    for (begun, receiver) in storms {
        seen.push(collect(begun, receiver).await);
    }
    seen
}

async fn collect(begun: std::time::Instant, mut receiver: mpsc::UnboundedReceiver<FinishedCall>) -> Seen {
    let mut seen = Seen {
        makespan: Duration::ZERO,
        waits: Vec::new(),
        failed: 0,
    };
    while let Some(call) = receiver.recv().await {
        seen.makespan = seen.makespan.max(call.end.duration_since(begun));
        seen.waits.push(call.took);
        seen.failed += usize::from(!call.well);
    }
    seen
}

/// One finished call.
struct FinishedCall {
    end: std::time::Instant,
    took: Duration,
    well: bool,
}

async fn one_after_another(
    client: Client<HttpConnector, Full<Bytes>>,
    call: Call,
    left: Arc<AtomicU32>,
    sender: mpsc::UnboundedSender<FinishedCall>,
) {
    let more = |left: u32| left.checked_sub(1);
    while left.fetch_update(Ordering::AcqRel, Ordering::Acquire, more).is_ok() {
        let begun = clock::read();
        let well = until_answered(&client, &call).await;
        let end = clock::read();
        let took = end.duration_since(begun);
        if sender.send(FinishedCall { end, took, well }).is_err() {
            return;
        }
    }
}

async fn until_answered(client: &Client<HttpConnector, Full<Bytes>>, call: &Call) -> bool {
    let mut ceiling = FIRST;
    for _ in 0..MOST_TRIES {
        let Some(request) = call.request() else {
            return false;
        };
        let answer = client.request(request).await;
        let status = answer.as_ref().map(|answer| answer.status().as_u16());
        let status = status.unwrap_or(0);
        if let Ok(answer) = answer {
            // The body is read so that the connection can be reused.
            let _read = answer.into_body().collect().await;
        }
        if status != 429 || call.reaction == ThrottleReaction::None {
            return status == 200;
        }
        tokio::time::sleep(ceiling.mul_f64(dice())).await;
        ceiling = (ceiling * 2).min(LONGEST);
    }
    false
}

/// Returns a value between 0 and 1 that differs from call to call: the lower digits of the clock.
fn dice() -> f64 {
    f64::from(clock::since_begin().subsec_nanos() % 10_007) / 10_007.0
}

const CALLS: u32 = 1_000;
const TOGETHER: usize = 100;
const FIRST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(10);

/// Enough for any contender that is ever served.
const MOST_TRIES: u32 = 100;
