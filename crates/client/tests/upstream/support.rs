//! A world without a runtime: time that moves when it is told to, callers that are polled by hand.
//!
//! Everything is on one thread and in the order that the test says, so that a law can be checked after
//! every single step, and a future dropped between any two of them.

pub(crate) mod caller;
pub(crate) mod history;
pub(crate) mod oracle;
pub(crate) mod timer;

use std::sync::Arc;
use std::time::Duration;

use outflow::core::{Accounting, Limit, Nanos, Rate};
use outflow::core::{Decision, Priority};
use outflow::{
    Acquire, AcquireOptions, Events, Permit, Refusal, Rules, Target, Upstream, WaitMode,
};
use outflow_testkit::EventRecorder;

pub(crate) use caller::Caller;
pub(crate) use timer::ManualTimer;

/// A door, its time and what it told.
pub(crate) struct World {
    pub(crate) timer: Arc<ManualTimer>,
    pub(crate) door: Upstream,
    pub(crate) diary: EventRecorder,
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

impl World {
    /// A door whose every event is written down.
    pub(crate) fn new(rules: Rules) -> Self {
        let events = Events::new();
        let diary = EventRecorder::subscribed_to(&events);
        Self::with(rules, events, diary)
    }

    /// A door that nobody listens to.
    pub(crate) fn silent(rules: Rules) -> Self {
        Self::with(rules, Events::new(), EventRecorder::default())
    }

    fn with(rules: Rules, events: Events, diary: EventRecorder) -> Self {
        let timer = Arc::new(ManualTimer::default());
        let shared = Arc::<ManualTimer>::clone(&timer);
        let door = Upstream::new("api", rules, shared, events);
        let door = door.expect("the rules fit together");
        Self { timer, door, diary }
    }

    pub(crate) fn now(&self) -> Nanos {
        self.door.now()
    }

    /// Lets time pass, ringing each alarm at its instant.
    pub(crate) fn pass(&self, span: Duration) {
        self.timer.pass(span);
    }

    /// The same, up to the last instant before its end.
    pub(crate) fn pass_all_but_an_instant_of(&self, span: Duration) {
        self.timer.pass(span.saturating_sub(INSTANT));
    }

    pub(crate) fn group(&self, name: &str) -> Target {
        self.door.group(name).expect("the group is in the rules")
    }

    /// An ordinary call of the group that takes what no route names.
    pub(crate) fn ask(&self) -> CallRequest {
        CallRequest::new(self.group("default"))
    }

    pub(crate) fn acquire(&self, call: CallRequest) -> Acquire {
        self.door.acquire_with(call.target, call.options)
    }

    pub(crate) fn try_acquire(&self, call: CallRequest) -> Result<Permit, Refusal> {
        self.door.try_acquire_with(call.target, call.options)
    }

    pub(crate) fn check(&self, call: CallRequest) -> Decision {
        self.door.check_with(call.target, call.options)
    }

    /// A caller that has not been polled.
    pub(crate) fn caller(&self, ask: CallRequest) -> Caller {
        Caller::new(self.acquire(ask), Arc::clone(&self.timer))
    }

    /// So many calls go at once, and all is well with them.
    pub(crate) fn sends(&self, calls: usize, ask: CallRequest) {
        for _ in 0..calls {
            self.caller(ask).goes();
        }
    }

    /// A caller that has been polled once and waits.
    pub(crate) fn waiting(&self, ask: CallRequest) -> Caller {
        let mut caller = self.caller(ask);
        let answer = caller.poll();
        assert!(answer.is_none(), "it should wait: {answer:?}");
        caller
    }

    /// One that waits behind a permit that is held, given back a moment later: called, not resumed.
    pub(crate) fn waiting_behind(&self, ask: CallRequest) -> Caller {
        let held = self.caller(ask).admitted();
        let caller = self.waiting(ask);
        drop(held);
        assert!(caller.is_woken());
        caller
    }

    pub(crate) fn in_flight(&self) -> u32 {
        let report = self.door.report();
        report.health.iter().map(|health| health.in_flight).sum()
    }

    /// Nobody waits, nothing is in flight.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.door.is_idle() && self.door.report().waiting == 0
    }
}

/// No limit but these, with more concurrency than any test asks for, and nothing learned.
pub(crate) fn rules(limits: Vec<Limit>) -> Rules {
    Rules {
        limits,
        health: health(|settings| settings.concurrency = 1_000_000),
        adaptive: outflow::core::AdaptiveMode::Off,
        ..Rules::unlimited()
    }
}

/// The usual variables of health, but for what is changed.
pub(crate) fn health(
    change: impl FnOnce(&mut outflow::core::HealthSettings),
) -> outflow::core::HealthConfig {
    let mut settings = outflow::core::HealthSettings::ADAPTIVE;
    change(&mut settings);
    outflow::core::HealthConfig::new(settings).expect("they fit together")
}

/// A sliding limit that counts sendings.
pub(crate) fn by_sending(rate: &str) -> Limit {
    Limit::sliding(parsed(rate)).counted(Accounting::Send)
}

/// A sliding limit that counts from arrivals, as late as they can have been.
pub(crate) fn by_arrival(rate: &str) -> Limit {
    Limit::sliding(parsed(rate)).counted(Accounting::Safe)
}

pub(crate) fn parsed(rate: &str) -> Rate {
    rate.parse().expect("a rate")
}

/// What lies between an instant and the next.
pub(crate) const INSTANT: Duration = Duration::from_nanos(1);

pub(crate) const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub(crate) const fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}
