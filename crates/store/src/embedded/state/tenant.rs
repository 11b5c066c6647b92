//! A tenant as memory knows it.

use std::collections::VecDeque;
use std::time::Duration;

use outflow_core::{Nanos, WallTime};

use crate::action::JobCounts;
use crate::name::Name;
use crate::tenant::{CongestionSample, TenantRule};

#[derive(Debug)]
pub(crate) struct TenantState {
    pub(crate) name: Name,
    /// What it is served by: its own rule, or that of all others.
    pub(crate) rule: TenantRule,
    /// Whether the rule is its own: such a tenant is not forgotten.
    pub(crate) ruled: bool,
    pub(crate) paused: bool,
    pub(crate) tally: JobCounts,
    pub(crate) last_backoff: Duration,
    pub(crate) speed: u64,
    pub(crate) last_update: Option<WallTime>,
    pub(crate) history: VecDeque<CongestionSample>,
    /// The lanes it has a seat in.
    pub(crate) lanes: Vec<u32>,
    /// Jobs up to this number are being cancelled.
    pub(crate) doomed_to: u64,
    /// Since when it is known to have no work, and nobody has made a place for it.
    pub(crate) idle_since: Option<Nanos>,
}

impl TenantState {
    pub(crate) fn new(name: Name, usual: TenantRule) -> Self {
        Self {
            name,
            rule: usual,
            ruled: false,
            paused: false,
            tally: JobCounts::default(),
            last_backoff: Duration::ZERO,
            speed: 0,
            last_update: None,
            history: VecDeque::new(),
            lanes: Vec::new(),
            doomed_to: 0,
            idle_since: None,
        }
    }

    /// Whether an operator or its own bound keeps it from being served.
    pub(crate) fn is_held(&self) -> bool {
        let most = self.rule.in_flight.map(u64::from);
        self.paused || most.is_some_and(|most| self.tally.in_flight >= most)
    }
}
