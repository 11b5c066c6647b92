//! Log lines of events: their contents, their forms, and the excluded texts.

mod end_to_end;
mod secrets;
mod writer;

use std::io::{self, Write};
use std::sync::Arc;

use outflow_sync::Mutex;

use crate::support::sample_events::{self, NOON, event};
use outflow::core::{HealthState, ManualClock, Nanos, WallTime};
use outflow::event::{DriftChange, EventKind};
use outflow::log::{LineFormat, Log, LogSettings, LogWriter, TracingObserver};
use outflow::redact::Scrubber;
use outflow::trace::TraceId;
use outflow::{AcquireOptions, AttemptResult, Event, Events, Observer, Rules, SystemClock, Upstream};
use tracing::Level;
use tracing_subscriber::layer::SubscriberExt;

/// A sink that returns its contents.
#[derive(Clone, Default)]
pub(crate) struct LogPage(Arc<Mutex<Vec<u8>>>);

impl LogPage {
    pub(crate) fn text(&self) -> String {
        let bytes = self.0.lock();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

impl Write for LogPage {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut page = self.0.lock();
        page.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

pub(crate) fn settings(format: LineFormat, level: Level) -> LogSettings {
    let wall = WallTime::from_unix_secs(NOON);
    let clock = Arc::new(ManualClock::new(Nanos::from_secs(100), wall));
    LogSettings {
        format,
        level,
        ..LogSettings::new(clock)
    }
}

pub(crate) fn log(format: LineFormat, level: Level) -> (Log, LogWriter, LogPage) {
    let page = LogPage::default();
    let (log, pump) = Log::new(settings(format, level), page.clone());
    (log, pump, page)
}

/// Returns the lines of a full log for these events.
pub(crate) fn written(format: LineFormat, kinds: Vec<EventKind>) -> Vec<String> {
    let (log, mut pump, page) = log(format, Level::TRACE);
    for what in kinds {
        log.observe(&event("tmdb", what));
    }
    pump.drain();
    page.text().lines().map(str::to_owned).collect()
}

const HEAD: &str = "ts=2024-05-01T10:00:00.000Z lvl=";

// The design's example for the keys, and the complete event.
#[test]
fn a_throttled_attempt_is_logged_with_its_state_and_numbers() {
    let lines = written(LineFormat::Logfmt, sample_events::health("movies"));
    let vitals = "consec429=3 err_rate_30s=0.24 rate=18rps sem=2";
    assert_eq!(
        lines,
        [
            format!(
                "{HEAD}INFO comp=ratelimiter state=Throttle event=429 sleep=1.8s {vitals} \
                 retry_after=2s api=tmdb group=movies endpoint=movies latency_ms=40 trace_id=- permit=7 seq=0"
            ),
            format!(
                "{HEAD}INFO comp=ratelimiter state=Throttle event=read_timeout sleep=1.8s {vitals} \
                 retry_after=2s api=tmdb group=movies endpoint=movies latency_ms=40 trace_id=- permit=7 seq=1"
            ),
            format!(
                "{HEAD}INFO comp=ratelimiter state=HalfOpen event=state_transition from=Throttle \
                 to=HalfOpen reason=success_window_ok failures=0 sleep=0s {vitals} retry_after=- api=tmdb group=movies seq=2"
            ),
            format!(
                "{HEAD}INFO comp=ratelimiter state=Throttle event=cooldown sleep=2s {vitals} \
                 retry_after=2s api=tmdb group=movies seq=3"
            ),
        ]
    );
}

#[test]
fn a_finished_call_is_logged_with_all_its_identifiers() {
    let mut call = sample_events::finished("/movie/3?key=1");
    call.request_id = "018f-1".into();
    call.group = "movies".into();
    let (log, mut pump, page) = log(LineFormat::Logfmt, Level::TRACE);
    let what = EventKind::Finished(Box::new(call));
    log.observe(&Event {
        trace: TraceId::new(0x4bf9),
        ..event("tmdb", what)
    });
    pump.drain();
    let lines: Vec<_> = page.text().lines().map(str::to_owned).collect();
    assert_eq!(
        lines,
        [format!(
            "{HEAD}INFO comp=client event=request retry_after=- api=tmdb group=movies method=GET path=/movie/3 \
             status=200 latency_ms=123 attempt=2 cb_state=CLOSED rl_wait_ms=45 req_id=018f-1 \
             trace_id=00000000000000000000000000004bf9 seq=0"
        )]
    );
}

#[test]
fn every_other_event_has_its_line() {
    let mut kinds = sample_events::permits("movies");
    kinds.extend(sample_events::limits("movies"));
    kinds.extend(sample_events::client("movies"));
    kinds.retain(|what| !matches!(what, EventKind::Finished(_)));
    let reported: Vec<_> = written(LineFormat::Logfmt, kinds)
        .iter()
        .map(|line| line.replace("ts=2024-05-01T10:00:00.000Z ", ""))
        .map(|line| line.split(" seq=").next().unwrap_or_default().to_owned())
        .collect();
    let ratelimiter = |level: &str, rest: &str| format!("lvl={level} comp=ratelimiter {rest}");
    assert_eq!(
        reported,
        [
            ratelimiter(
                "DEBUG",
                "event=waiting reason=turn sleep=1.8s api=tmdb group=movies endpoint=movies trace_id=- cost=3 position=4"
            ),
            ratelimiter(
                "DEBUG",
                "event=admitted api=tmdb group=movies endpoint=movies rl_wait_ms=250 trace_id=- permit=7 cost=1"
            ),
            ratelimiter(
                "INFO",
                "event=refused reason=unknown_group retry_after=1.5s api=tmdb group=movies endpoint=movies rl_wait_ms=0 \
                 trace_id=-"
            ),
            ratelimiter(
                "DEBUG",
                "event=refunded api=tmdb group=movies endpoint=movies trace_id=- permit=7"
            ),
            ratelimiter(
                "WARN",
                "event=limit_low api=tmdb group=movies limit=50/s window=1s remaining=2 capacity=10"
            ),
            ratelimiter(
                "WARN",
                "event=pacing_capped sleep=3s api=tmdb group=movies limit=50/s window=60s cap=0.5s"
            ),
            ratelimiter(
                "WARN",
                "event=drift api=tmdb group=movies configured=50/s evidence=40/s"
            ),
            ratelimiter("WARN", "event=usage_high api=tmdb group=movies used=0.85"),
            ratelimiter("WARN", "event=malformed_headers api=tmdb count=2"),
            ratelimiter("INFO", "event=foreign_use api=tmdb group=movies count=5"),
            "lvl=INFO comp=client event=retry reason=timeout sleep=0.9s retry_after=- api=tmdb attempt=1 trace_id=-"
                .into(),
            "lvl=WARN comp=client event=unresolved reason=no_such_name api=tmdb trace_id=-".into(),
            "lvl=DEBUG comp=cache event=lookup reason=stale api=tmdb trace_id=-".into(),
            "lvl=WARN comp=cache event=disk reason=elsewhere".into(),
            "lvl=ERROR comp=tasks event=task_restarting sleep=1s count=2 task=refill".into(),
        ]
    );
}

// A key that a search relies on is there in every such line.
#[test]
fn a_finished_call_has_its_keys_without_values() {
    let call = sample_events::finished("/movie/3");
    let kind = EventKind::Finished(Box::new(call));
    let logfmt = written(LineFormat::Logfmt, vec![kind.clone()]).concat();
    assert!(
        logfmt.contains(" retry_after=- ") && logfmt.contains(" trace_id=- "),
        "{logfmt}"
    );
    let json = written(LineFormat::Json, vec![kind]).concat();
    assert!(
        json.contains("\"retry_after\":\"-\"") && json.contains("\"trace_id\":\"-\""),
        "{json}"
    );
}

// Three 429s in a row are the reason in the cautious profile; the new state has counted none of them.
#[test]
fn a_transition_is_logged_with_the_figures_that_led_to_it() {
    let (log, mut pump, page) = log(LineFormat::Logfmt, Level::INFO);
    let events = Events::new();
    events.subscribe(Arc::new(log));
    let rules = Rules {
        health: outflow::core::HealthConfig::cautious(),
        ..Rules::unlimited()
    };
    let upstream = Upstream::new("tmdb", rules, Arc::new(SystemClock::new()), events).expect("valid");
    let target = upstream.group("default").expect("there");
    for status in [200, 429, 429, 429] {
        let mut permit = upstream.try_acquire(target).expect("it goes");
        permit.sending();
        permit.settle(AttemptResult::status(status));
    }
    pump.drain();
    let text = page.text();
    let line = text.lines().find(|line| line.contains("event=state_transition"));
    let line = line.unwrap_or_else(|| panic!("no transition in {text}"));
    assert!(line.contains("from=Normal to=Throttle reason=streak"), "{line}");
    assert!(line.contains(" consec429=3 err_rate_30s=0.75 "), "{line}");
    assert!(line.contains(" failures=3 "), "{line}");
    let last = text.lines().rfind(|line| line.contains("event=429"));
    let last = last.unwrap_or_else(|| panic!("no 429 in {text}"));
    assert!(
        last.contains(" consec429=3 err_rate_30s=0.75 "),
        "the line of its cause: {last}"
    );
}

// A search for a trace finds every line of its calls. An hour is longer than any wait that keeps the state, so the
// second call is refused; the trace is that of the standard's example.
#[test]
fn every_line_of_a_call_has_its_trace_and_its_wait() {
    let (log, mut pump, page) = log(LineFormat::Logfmt, Level::TRACE);
    let events = Events::new();
    events.subscribe(Arc::new(log));
    let rules = Rules {
        health: outflow::core::HealthConfig::cautious(),
        ..Rules::with_limit("10/s".parse().expect("a rate"))
    };
    let upstream = Upstream::new("tmdb", rules, Arc::new(SystemClock::new()), events).expect("valid");
    let target = upstream.group("default").expect("there");
    let traced = AcquireOptions::new().with_trace(TraceId::new(0x4bf9_2f35));
    let mut permit = upstream.try_acquire_with(target, traced).expect("it goes");
    permit.sending();
    let mut headers = http::HeaderMap::new();
    headers.insert("retry-after", http::HeaderValue::from_static("3600"));
    permit.settle(AttemptResult::response(429, &headers));
    upstream.try_acquire_with(target, traced).expect_err("it sleeps");
    pump.drain();
    let text = page.text();
    for (name, key) in [
        ("admitted", ""),
        ("429", " retry_after=3600s "),
        ("refused", " retry_after=3"),
    ] {
        let line = text.lines().find(|line| line.contains(&format!("event={name} ")));
        let line = line.unwrap_or_else(|| panic!("no {name} in {text}"));
        assert!(line.contains(" trace_id=0000000000000000000000004bf92f35 "), "{line}");
        assert!(line.contains(key), "{line}");
    }
}

#[test]
fn growth_of_a_limit_is_no_warning() {
    let changes = [DriftChange::Lowered, DriftChange::Raised, DriftChange::Ended];
    let kinds = changes.map(|change| EventKind::Drifting {
        group: None,
        drift: None,
        change,
    });
    let lines = written(LineFormat::Logfmt, kinds.into());
    for (line, level) in lines.iter().zip(["WARN", "DEBUG", "INFO"]) {
        assert!(line.contains(&format!("lvl={level} ")), "{line}");
    }
}

// An outage of an hour has more than a hundred failed probes; one line of it is a warning.
#[test]
fn the_begin_of_a_sleep_is_a_warning_and_a_failed_probe_is_none() {
    for (state, level) in [(HealthState::Normal, "WARN"), (HealthState::HalfOpen, "INFO")] {
        let mut kinds = sample_events::health("movies");
        kinds.retain(|kind| matches!(kind, EventKind::Moved { .. }));
        for kind in &mut kinds {
            if let EventKind::Moved { transition, .. } = kind {
                (transition.from, transition.to) = (state, HealthState::Sleep);
            }
        }
        let line = written(LineFormat::Logfmt, kinds).concat();
        assert!(line.contains(&format!("lvl={level} ")), "{line}");
    }
}

// An operator's text is a value like any other: it cannot end its line or start another key.
#[test]
fn an_operators_change_is_logged() {
    let what = EventKind::Operated {
        group: Some("movies".into()),
        action: "hold_offline",
        who: "127.0.0.1: a move\nlvl=ERROR".into(),
    };
    let lines = written(LineFormat::Logfmt, vec![what]);
    let line = lines[0].split(" seq=").next().unwrap_or_default();
    let expected = "lvl=INFO comp=admin event=operated reason=hold_offline api=tmdb group=movies \
                    msg=\"127.0.0.1: a move\\nlvl=ERROR\"";
    assert!(line.ends_with(expected), "{line}");
}

// Both forms hold the same fields: logfmt keys have no spaces, so the words before `=` are the
// keys.
#[test]
fn json_has_every_field_of_logfmt() {
    let kinds: Vec<_> = sample_events::every("movies").into_iter().map(|one| one.what).collect();
    let logfmt = written(LineFormat::Logfmt, kinds.clone());
    let json = written(LineFormat::Json, kinds);
    assert_eq!((logfmt.len(), json.len()), (20, 20));
    for (logfmt, json) in logfmt.iter().zip(&json) {
        let object: serde_json::Value = serde_json::from_str(json).expect("valid");
        let object = object.as_object().expect("an object");
        let fields: Vec<_> = logfmt.split(' ').filter_map(|f| f.split_once('=')).collect();
        assert_eq!(object.len(), fields.len(), "{logfmt} and {json}");
        for (key, value) in fields {
            let reported = &object[key];
            let reported = reported.as_str().map_or(reported.to_string(), str::to_owned);
            assert_eq!(reported, value, "{key} of {json}");
        }
    }
}

#[test]
fn the_log_writes_only_its_level_and_above() {
    let mut counts = Vec::new();
    for level in [Level::ERROR, Level::WARN, Level::INFO, Level::DEBUG, Level::TRACE] {
        let (log, mut pump, page) = log(LineFormat::Logfmt, level);
        for event in sample_events::every("x") {
            log.observe(&event);
        }
        pump.drain();
        counts.push(page.text().lines().count());
    }
    assert_eq!(counts, [1, 8, 16, 20, 20]);
}

// Both ways to a line, directly and through `tracing`, give one form.
#[test]
fn a_line_through_tracing_is_identical() {
    for format in [LineFormat::Logfmt, LineFormat::Json] {
        let (direct, mut pump, expected) = log(format, Level::TRACE);
        let (layered, mut layer_pump, page) = log(format, Level::TRACE);
        let subscriber = tracing_subscriber::registry().with(layered.layer());
        let narrator = TracingObserver::new(Scrubber::new());
        tracing::subscriber::with_default(subscriber, || {
            for event in sample_events::every("movies") {
                direct.observe(&event);
                narrator.observe(&event);
            }
        });
        pump.drain();
        layer_pump.drain();
        assert_eq!(page.text(), expected.text());
        assert_eq!(page.text().lines().count(), 20);
    }
}

#[test]
fn a_programs_own_lines_have_the_same_form() {
    let (log, mut pump, page) = log(LineFormat::Logfmt, Level::INFO);
    let subscriber = tracing_subscriber::registry().with(log.layer());
    tracing::subscriber::with_default(subscriber, || {
        tracing::info!(target: "outflow::serve", port = 7070, ok = true, ts = "x", "now serving");
        tracing::debug!(target: "outflow::serve", "too much");
        tracing::info!(target: "h2", frame = "Headers { … }", "received");
        tracing::warn!(target: "h2", ratio = f64::NAN, "odd");
    });
    pump.drain();
    assert_eq!(
        page.text(),
        format!(
            "{HEAD}INFO comp=outflow::serve msg=\"now serving\" port=7070 ok=true seq=0\n\
             {HEAD}WARN comp=h2 msg=odd ratio=NaN seq=1\n"
        )
    );
}

// `shop` is the program; `shopping` and `outflowing` only share a prefix with it and with us.
#[test]
fn a_crate_matches_only_by_its_whole_name() {
    let (log, mut pump, page) = log(LineFormat::Logfmt, Level::INFO);
    let layer = log.layer().with_crate("shop");
    let subscriber = tracing_subscriber::registry().with(layer);
    tracing::subscriber::with_default(subscriber, || {
        tracing::info!(target: "shop", "open");
        tracing::info!(target: "shop::orders", order = 7, "order placed");
        tracing::info!(target: "shopping", header = "authorization: x", "frame");
        tracing::info!(target: "outflowing::wire", header = "authorization: x", "frame");
    });
    pump.drain();
    assert_eq!(
        page.text(),
        format!(
            "{HEAD}INFO comp=shop msg=open seq=0\n\
             {HEAD}INFO comp=shop::orders msg=\"order placed\" order=7 seq=1\n"
        )
    );
}

// Sequence numbers order the lines when the machine's clock is set back.
#[test]
fn the_order_of_lines_does_not_depend_on_the_clock() {
    let clock = Arc::new(ManualClock::new(Nanos::ZERO, WallTime::from_unix_secs(NOON)));
    let page = LogPage::default();
    let (log, mut pump) = Log::new(LogSettings::new(clock.clone()), page.clone());
    for wall in [NOON, NOON - 86_400, 0] {
        clock.set_wall(WallTime::from_unix_secs(wall));
        log.observe(&event("a", EventKind::Foreign { group: None, units: 1 }));
    }
    pump.drain();
    assert_eq!(page.text().matches(" seq=2\n").count(), 1);
    assert!(page.text().lines().last().expect("a line").contains("ts=1970-01-01T"));
}
