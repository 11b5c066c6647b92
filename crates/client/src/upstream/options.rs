//! The target of a call and the options of its acquisition.

use std::time::Duration;

use outflow_core::{Cost, Nanos, Priority};

use super::endpoint::EndpointLabel;
use super::wait_queue::{QueuePosition, WaitDeadline};
use crate::rules::WaitMode;
use crate::trace::TraceId;

/// Group, endpoint and cost of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Target {
    pub(super) group: u32,
    pub(super) endpoint: EndpointLabel,
    pub(super) cost: Cost,
}

impl Target {
    /// Sets the cost.
    #[must_use]
    pub const fn with_cost(mut self, cost: Cost) -> Self {
        self.cost = cost;
        self
    }

    /// Returns the cost.
    pub const fn cost(self) -> Cost {
        self.cost
    }
}

/// Options of an acquisition.
///
/// ```
/// use outflow::core::Priority;
/// use outflow::AcquireOptions;
///
/// let urgent = AcquireOptions::default().with_priority(Priority::High);
/// # let _ = urgent;
/// ```
#[derive(Clone, Copy, Debug)]
pub struct AcquireOptions {
    pub(super) priority: Priority,
    pub(super) deadline: Option<WaitDeadline>,
    pub(super) mode: Option<WaitMode>,
    pub(super) standing: QueuePosition,
    pub(super) trace: TraceId,
}

impl AcquireOptions {
    /// Creates the default options: normal priority, deadline and wait mode of the rules.
    pub const fn new() -> Self {
        Self {
            priority: Priority::Normal,
            deadline: None,
            mode: None,
            standing: QueuePosition::New,
            trace: TraceId::NONE,
        }
    }

    /// Sets the trace that events and log lines of the call name.
    #[must_use]
    pub const fn with_trace(mut self, trace: TraceId) -> Self {
        self.trace = trace;
        self
    }

    /// Sets the priority among the waiters of the group.
    #[must_use]
    pub const fn with_priority(mut self, priority: Priority) -> Self {
        self.priority = priority;
        self
    }

    /// Sets the instant until which the call waits for its permit.
    #[must_use]
    pub const fn with_deadline(mut self, deadline: Nanos) -> Self {
        self.deadline = Some(WaitDeadline::At(deadline));
        self
    }

    /// Sets the longest wait for the permit, in place of that of the rules.
    #[must_use]
    pub const fn with_max_wait(mut self, max_wait: Duration) -> Self {
        self.deadline = Some(WaitDeadline::Within(max_wait));
        self
    }

    /// Sets the end of the whole call: it waits no longer than a response can still come before it.
    #[must_use]
    pub(crate) const fn with_end(mut self, end: Nanos) -> Self {
        self.deadline = Some(WaitDeadline::BeforeEnd(end));
        self
    }

    /// Sets the wait mode in place of that of the rules.
    #[must_use]
    pub const fn with_mode(mut self, mode: WaitMode) -> Self {
        self.mode = Some(mode);
        self
    }

    /// Marks a call of which an attempt failed: others probe a sleeping API first.
    #[must_use]
    pub(crate) const fn with_retry(mut self) -> Self {
        self.standing = QueuePosition::Retrying;
        self
    }

    /// Puts the call ahead of all new calls: it was sent before, under a limit that was too high.
    #[must_use]
    pub(crate) const fn with_return(mut self) -> Self {
        self.standing = QueuePosition::Returning;
        self
    }
}

impl Default for AcquireOptions {
    fn default() -> Self {
        Self::new()
    }
}
