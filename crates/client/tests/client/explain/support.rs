//! A user's client, a server in virtual time, and the comparison of an explanation with its call.

use std::sync::Arc;
use std::time::Duration;

use http::Method;
use outflow::config::{Environment, Source};
use outflow::core::{Nanos, Priority};
use outflow::event::{CallFinished, EventKind};
use outflow::{
    CacheDirective, Call, CallDecision, Config, IoStream, LimitSharing, Outflow, Upstream, WaitMode, WaitReason,
};
use outflow_mock::{Latency, MockApi, MockResponse, Script, ScriptMatch, ScriptedFault};
use outflow_testkit::{Background, EventRecorder, MemoryLedger, VirtualTime};
use tokio::time::Instant;

/// Client and server.
pub(crate) struct ExplainBed {
    pub(crate) client: Outflow,
    pub(crate) mock: MockApi,
    time: VirtualTime,
    /// Another process, where processes share the limits.
    peer: Option<Outflow>,
    recorder: EventRecorder,
    background: Vec<Background<()>>,
}

/// A call that is explained and then made.
#[derive(Clone, Debug)]
pub(crate) struct ExplainedCall {
    pub(crate) method: Method,
    pub(crate) path: &'static str,
    pub(crate) cost: Option<u64>,
    pub(crate) priority: Priority,
    pub(crate) mode: Option<WaitMode>,
    pub(crate) max_wait: Option<Duration>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) cache: CacheDirective,
}

/// The end of the real call.
#[derive(Debug)]
pub(crate) struct MetResult {
    pub(crate) result: Result<outflow::Response, outflow::Error>,
    pub(crate) finished: CallFinished,
    /// Time from the explanation to the end.
    pub(crate) took: Duration,
    /// Instant of the explanation.
    pub(crate) at: Nanos,
    /// True if no call was in flight then.
    pub(crate) was_idle: bool,
    /// Number of health transitions until its end.
    pub(crate) slept: usize,
    /// True if the limits are shared, with an account that counts in parts of a window.
    pub(crate) is_shared: bool,
}

impl ExplainedCall {
    pub(crate) const fn get() -> Self {
        Self {
            method: Method::GET,
            path: "/asked",
            cost: None,
            priority: Priority::Normal,
            mode: None,
            max_wait: None,
            timeout: None,
            cache: CacheDirective::Configured,
        }
    }

    fn build(&self, client: &Outflow) -> Call {
        // A retry is another wait: the explanation is about the first.
        let mut call = client.request(self.method.clone(), API, self.path).no_retry();
        call = call.priority(self.priority).cache(self.cache);
        if let Some(cost) = self.cost {
            call = call.cost(outflow::core::Cost::new(cost));
        }
        if let Some(mode) = self.mode {
            call = call.mode(mode);
        }
        if let Some(max_wait) = self.max_wait {
            call = call.max_wait(max_wait);
        }
        if let Some(timeout) = self.timeout {
            call = call.timeout(timeout);
        }
        call
    }
}

impl ExplainBed {
    /// Builds the client of a program that shares its limits, as `outflow serve` does by default, and that of a second
    /// process.
    pub(crate) fn sharing(lines: &str) -> Self {
        let mut bed = Self::new(lines);
        let ledger = MemoryLedger::new(bed.time.clone());
        let peer = build_client(lines, &bed.mock, &bed.time);
        for client in [&bed.client, &peer] {
            // On one host an answer takes microseconds.
            let link = ledger.connect(Duration::ZERO);
            let upstream = client.upstream(API).expect("configured");
            upstream.share(LimitSharing::new(link, API.into()));
        }
        bed.peer = Some(peer);
        bed
    }

    /// Builds the client from the lines that a user writes below the address.
    pub(crate) fn new(lines: &str) -> Self {
        let mock = MockApi::builder().build().expect("valid");
        let fresh = MockResponse::ok("{}").header("cache-control", "max-age=60, stale-if-error=600");
        mock.answer("/kept", fresh);
        mock.delay(Latency::Fixed(WAY), Latency::Fixed(WAY));
        let time = VirtualTime::new();
        let client = build_client(lines, &mock, &time);
        let recorder = EventRecorder::subscribed_to(client.events());
        Self {
            client,
            mock,
            time,
            peer: None,
            recorder,
            background: Vec::new(),
        }
    }

    /// Returns true if a second process shares the limits.
    pub(crate) const fn is_shared(&self) -> bool {
        self.peer.is_some()
    }

    pub(crate) fn upstream(&self) -> Upstream {
        self.client.upstream(API).expect("configured")
    }

    /// Answers every call that comes now with this.
    pub(crate) fn answer_all(&self, fault: impl Into<ScriptedFault>) {
        self.mock.rewrite(Script::new().rule(ScriptMatch::always(), fault));
    }

    /// Answers as usual again.
    pub(crate) fn heal(&self) {
        self.mock.rewrite(Script::new());
    }

    /// Makes so many calls at once and awaits their ends.
    pub(crate) async fn calls(&self, count: usize) {
        let calls: Vec<_> = (0..count).map(|_| self.start("/busy")).collect();
        for call in calls {
            call.join().await;
        }
    }

    /// Makes so many calls at once, whose callers leave before most of them have a response.
    pub(crate) async fn cut_off(&self, count: usize) {
        let calls: Vec<_> = (0..count).map(|_| self.start("/busy")).collect();
        tokio::time::sleep(WAY).await;
        drop(calls);
    }

    /// Starts calls that go on in the background.
    pub(crate) async fn keep_busy(&mut self, count: usize) {
        let calls: Vec<_> = (0..count).map(|_| self.start("/busy")).collect();
        self.background.extend(calls);
        // Every call that may start has started.
        tokio::time::sleep(Duration::from_millis(1)).await;
    }

    /// Returns the number of health transitions so far.
    fn transitions(&self) -> usize {
        let is_transition = |event: &outflow::event::Event| matches!(event.what, EventKind::Moved { .. });
        self.recorder.all().iter().filter(|event| is_transition(event)).count()
    }

    /// Makes so many calls of the second process at once, and awaits their ends and the return of what it leased: while
    /// it holds units, no caller knows whether it will use them.
    pub(crate) async fn calls_of_peer(&self, count: usize) {
        let Some(peer) = &self.peer else {
            return;
        };
        let calls: Vec<_> = (0..count).map(|_| peer.get(API, "/busy").no_retry()).collect();
        let calls: Vec<_> = calls
            .into_iter()
            .map(|call| {
                Background::start(async move {
                    let _end = call.send().await;
                })
            })
            .collect();
        for call in calls {
            call.join().await;
        }
        tokio::time::sleep(LEASED).await;
    }

    fn start(&self, path: &'static str) -> Background<()> {
        let call = self.client.get(API, path).no_retry();
        Background::start(async move {
            let _end = call.send().await;
        })
    }

    /// Explains a call, makes it at the same instant, and asserts that it meets what was said.
    pub(crate) async fn compare(&self, call: &ExplainedCall) -> (CallDecision, MetResult) {
        let was_idle = self.upstream().is_idle();
        let transitions = self.transitions();
        let said = call.build(&self.client).explain().await.expect("a valid call");
        let at = self.upstream().now();
        let began = Instant::now();
        let result = call.build(&self.client).send().await;
        let mut finished = self.recorder.finished();
        finished.retain(|finished| finished.path == call.path);
        let met = MetResult {
            result,
            finished: finished.pop().expect("every call is reported"),
            took: began.elapsed(),
            at,
            was_idle,
            slept: self.transitions() - transitions,
            is_shared: self.peer.is_some(),
        };
        assert_met(&said, &met);
        (said, met)
    }
}

/// Asserts that a call met what was said of it.
pub(crate) fn assert_met(said: &CallDecision, met: &MetResult) {
    let (finished, text) = (&met.finished, said.describe(met.at));
    let error = met.result.as_ref().err();
    match said {
        CallDecision::Go => {
            assert!(finished.attempts > 0, "{text}: {met:?}");
            assert_eq!(finished.waited, Duration::ZERO, "{text}: {met:?}");
        }
        CallDecision::Wait(estimate) => {
            let at_once = met.took.is_zero() && finished.attempts == 0;
            assert!(!at_once, "{text}: {met:?}");
            if finished.attempts > 0 {
                assert!(!finished.waited.is_zero(), "{text}: {met:?}");
            }
            let is_known = estimate.position == 0 && finished.attempts > 0;
            let tolerance = match estimate.reason {
                WaitReason::Limit { rate, .. } if met.is_shared => TOLERANCE + rate.per() / 128 + SHARING,
                _ => TOLERANCE,
            };
            if let Some(eta) = estimate.eta.filter(|_| is_known) {
                let start = met.at.saturating_add(finished.waited);
                assert!(eta.since(start) <= tolerance, "{text}: too early in {met:?}");
                // Calls in flight that get no response hold units of a limit until their timeout. Several of them put
                // the API to sleep, and that is another wait.
                let latest = estimate.unanswered.map_or(eta, |calls| calls.start);
                let is_known = met.was_idle || (estimate.reason.name() == "limit" && met.slept == 0);
                assert!(
                    !is_known || start.since(latest) <= tolerance,
                    "{text}: too late in {met:?}"
                );
            }
        }
        CallDecision::Refuse(refusal) => {
            assert_eq!(
                error.and_then(outflow::Error::refusal),
                Some(refusal),
                "{text}: {met:?}"
            );
            assert_eq!(met.took, Duration::ZERO, "{text}: {met:?}");
        }
        CallDecision::Cached(label) => {
            let response = met.result.as_ref().expect("a response");
            assert_eq!(response.from_cache(), Some(*label), "{text}: {met:?}");
            assert_eq!((met.took, finished.attempts), (Duration::ZERO, 0), "{text}: {met:?}");
        }
        CallDecision::Miss(_) => {
            assert!(error.is_some_and(outflow::Error::is_cache_miss), "{text}: {met:?}");
            assert_eq!(met.took, Duration::ZERO, "{text}: {met:?}");
        }
        other => unreachable!("{other:?} has no comparison"),
    }
}

/// Builds the client of a process from the lines that a user writes below the address.
fn build_client(lines: &str, mock: &MockApi, time: &VirtualTime) -> Outflow {
    let server = Arc::new(mock.in_memory());
    let text = format!("[apis.{API}]\nbase_url = {:?}\n{lines}\n", server.url());
    let sources = [Source::new("outflow.toml", text)];
    let config = Config::read(&sources, &Environment::empty()).expect("a valid configuration");
    let builder = Outflow::builder()
        .timer(Arc::new(time.clone()))
        .cache(outflow::cache::Cache::open(outflow::cache::CacheSettings::default()).expect("a cache"))
        .connector(Arc::new(move |_: &str, _: u16| -> outflow::Connecting {
            let pipe: Box<dyn IoStream> = Box::new(server.connect());
            Box::pin(async move { Ok(pipe) })
        }));
    let client = config.apis.into_iter().fold(builder, outflow::OutflowBuilder::api);
    client.build().expect("a client")
}

pub(crate) const API: &str = "x";
/// One way to the server.
const WAY: Duration = Duration::from_millis(25);
/// An answer of the ledger takes a moment, and a report before it.
const SHARING: Duration = Duration::from_millis(10);
/// Time after which an idle process has returned its units.
const LEASED: Duration = Duration::from_millis(100);
/// The runtime's timers have this resolution.
const TOLERANCE: Duration = Duration::from_millis(2);
