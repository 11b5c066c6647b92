//! A test bed without a runtime: manual time and manually polled callers.
//!
//! Everything runs on one thread in the order of the test. It can check a law after every step and
//! drop a future between any two.

pub(crate) mod caller;
pub(crate) mod history;
pub(crate) mod oracle;
pub(crate) mod timer;

use std::sync::Arc;
use std::time::Duration;

use outflow::core::{Accounting, Limit, Nanos, Rate};
use outflow::core::{Decision, Priority};
use outflow::{Acquire, AcquireOptions, Events, Permit, Refusal, Rules, Target, Upstream, WaitMode};
use outflow_testkit::EventRecorder;

pub(crate) use caller::TestCaller;
pub(crate) use timer::ManualTimer;

/// An upstream, its time and its events.
pub(crate) struct TestBed {
    pub(crate) timer: Arc<ManualTimer>,
    pub(crate) upstream: Upstream,
    pub(crate) recorder: EventRecorder,
}

/// A target and the options of its acquisition.
#[derive(Clone, Copy)]
pub(crate) struct CallRequest {
    pub(crate) target: Target,
    pub(crate) options: AcquireOptions,
}

impl CallRequest {
    pub(crate) fn new(target: Target) -> Self {
        Self {
            target,
            options: AcquireOptions::new(),
        }
    }

    pub(crate) fn priority(mut self, priority: Priority) -> Self {
        self.options = self.options.with_priority(priority);
        self
    }

    pub(crate) fn deadline(mut self, deadline: Nanos) -> Self {
        self.options = self.options.with_deadline(deadline);
        self
    }

    pub(crate) fn mode(mut self, mode: WaitMode) -> Self {
        self.options = self.options.with_mode(mode);
        self
    }
}

impl TestBed {
    /// Builds an upstream whose events are recorded.
    pub(crate) fn new(rules: Rules) -> Self {
        let events = Events::new();
        let recorder = EventRecorder::subscribed_to(&events);
        Self::with(rules, events, recorder)
    }

    /// Builds an upstream without observers.
    pub(crate) fn silent(rules: Rules) -> Self {
        Self::with(rules, Events::new(), EventRecorder::default())
    }

    fn with(rules: Rules, events: Events, recorder: EventRecorder) -> Self {
        let timer = Arc::new(ManualTimer::default());
        let shared = Arc::<ManualTimer>::clone(&timer);
        let upstream = Upstream::new("api", rules, shared, events);
        let upstream = upstream.expect("the rules fit together");
        Self {
            timer,
            upstream,
            recorder,
        }
    }

    pub(crate) fn now(&self) -> Nanos {
        self.upstream.now()
    }

    /// Lets time pass, firing each timer at its instant.
    pub(crate) fn pass(&self, span: Duration) {
        self.timer.pass(span);
    }

    /// Lets time pass up to the last instant before the end of this span.
    pub(crate) fn pass_until_just_before(&self, span: Duration) {
        self.timer.pass(span.saturating_sub(INSTANT));
    }

    pub(crate) fn group(&self, name: &str) -> Target {
        self.upstream.group(name).expect("the group is in the rules")
    }

    /// Returns the options of an ordinary call of the default group.
    pub(crate) fn options(&self) -> CallRequest {
        CallRequest::new(self.group("default"))
    }

    pub(crate) fn acquire(&self, call: CallRequest) -> Acquire {
        self.upstream.acquire_with(call.target, call.options)
    }

    pub(crate) fn try_acquire(&self, call: CallRequest) -> Result<Permit, Refusal> {
        self.upstream.try_acquire_with(call.target, call.options)
    }

    pub(crate) fn check(&self, call: CallRequest) -> Decision {
        self.upstream.check_with(call.target, call.options)
    }

    /// Returns a caller that has not been polled.
    pub(crate) fn caller(&self, options: CallRequest) -> TestCaller {
        TestCaller::new(self.acquire(options), Arc::clone(&self.timer))
    }

    /// Sends this many calls at once, all successful.
    pub(crate) fn sends(&self, calls: usize, options: CallRequest) {
        for _ in 0..calls {
            self.caller(options).goes();
        }
    }

    /// Returns a caller that was polled once and waits.
    pub(crate) fn waiting(&self, options: CallRequest) -> TestCaller {
        let mut caller = self.caller(options);
        let result = caller.poll();
        assert!(result.is_none(), "it should wait: {result:?}");
        caller
    }

    /// Returns a caller that waited behind a held permit and was dispatched, but not resumed.
    pub(crate) fn waiting_behind(&self, options: CallRequest) -> TestCaller {
        let held = self.caller(options).admitted();
        let caller = self.waiting(options);
        drop(held);
        assert!(caller.is_woken());
        caller
    }

    pub(crate) fn in_flight(&self) -> u32 {
        let report = self.upstream.report();
        report.health.iter().map(|health| health.in_flight).sum()
    }

    /// Returns true if no call waits or is in flight.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.upstream.is_idle() && self.upstream.report().waiting == 0
    }
}

/// Builds rules with only these limits, ample concurrency and no adaptation.
pub(crate) fn rules(limits: Vec<Limit>) -> Rules {
    Rules {
        limits,
        health: health(|settings| settings.concurrency = Some(1_000_000)),
        adaptive: outflow::core::AdaptiveMode::Off,
        ..Rules::unlimited()
    }
}

/// Adapts the default health settings.
pub(crate) fn health(change: impl FnOnce(&mut outflow::core::HealthSettings)) -> outflow::core::HealthConfig {
    let mut settings = outflow::core::HealthSettings::ADAPTIVE;
    change(&mut settings);
    outflow::core::HealthConfig::new(settings).expect("they fit together")
}

/// Builds a sliding limit that counts from sending.
pub(crate) fn by_sending(rate: &str) -> Limit {
    Limit::sliding(parsed(rate)).counted(Accounting::Send)
}

/// Builds a sliding limit that counts from the latest possible arrival.
pub(crate) fn by_arrival(rate: &str) -> Limit {
    Limit::sliding(parsed(rate)).counted(Accounting::Safe)
}

pub(crate) fn parsed(rate: &str) -> Rate {
    rate.parse().expect("a rate")
}

/// The smallest step of time.
pub(crate) const INSTANT: Duration = Duration::from_nanos(1);

pub(crate) const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub(crate) const fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}
