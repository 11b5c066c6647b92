//! A tenant as memory knows it.

use std::collections::VecDeque;
use std::time::Duration;

use outflow_core::{Nanos, WallTime};

use crate::action::JobCounts;
use crate::name::Name;
use crate::tenant::{CongestionSample, TenantRule};

#[derive(Debug)]
pub(super) struct TenantState {
    pub(super) name: Name,
    /// What it is served by: its own rule, or that of all others.
    pub(super) rule: TenantRule,
    /// Whether the rule is its own: such a tenant is not forgotten.
    pub(super) ruled: bool,
    pub(super) paused: bool,
    pub(super) tally: JobCounts,
    pub(super) last_backoff: Duration,
    pub(super) speed: u64,
    pub(super) last_update: Option<WallTime>,
    pub(super) history: VecDeque<CongestionSample>,
    /// The lanes it has a seat in.
    pub(super) lanes: Vec<u32>,
    /// Jobs up to this number are being cancelled.
    pub(super) doomed_to: u64,
    /// Since when it is known to have no work, and nobody has made a place for it.
    pub(super) idle_since: Option<Nanos>,
}

impl TenantState {
    pub(super) fn new(name: Name, usual: TenantRule) -> Self {
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
    pub(super) fn is_held(&self) -> bool {
        let most = self.rule.in_flight.map(u64::from);
        self.paused || most.is_some_and(|most| self.tally.in_flight >= most)
    }
}
