//! Probes in flight while an API is half open.
//!
//! Each has a slot with its own deadline. A counter would be smaller, but it would not know when
//! the oldest was sent: a hanging probe would keep the machine half open for ever.

use core::num::NonZeroU8;
use core::time::Duration;

use crate::Nanos;

/// The number of slots; more than a few are load, not probes.
pub(super) const MAX_PROBES: u32 = 8;

/// The slots, and the good and neutral responses so far.
#[derive(Clone, Copy, Debug)]
pub(super) struct ProbeSlots {
    /// Time at which the probe in this slot is given up; a free slot has none.
    deadlines: [Option<Nanos>; 8],
    succeeded: u32,
    neutral: u32,
}

/// Slot of a probe, counted from 1: a ticket with no slot then fits two registers, which saves a
/// third of an ordinary request's time in the machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct ProbeSlot(NonZeroU8);

impl ProbeSlots {
    pub(super) const NONE: Self = Self {
        deadlines: [None; 8],
        succeeded: 0,
        neutral: 0,
    };

    /// Allocates a slot for a probe sent now, if fewer than `limit` are in flight.
    pub(super) fn send(&mut self, now: Nanos, timeout: Duration, max: u32) -> Option<ProbeSlot> {
        if self.in_flight() >= max {
            return None;
        }
        let (number, free) = (1_u8..)
            .zip(&mut self.deadlines)
            .find(|(_, deadline)| deadline.is_none())?;
        *free = Some(now.saturating_add(timeout));
        NonZeroU8::new(number).map(ProbeSlot)
    }

    /// Frees a slot.
    pub(super) fn free(&mut self, slot: ProbeSlot) {
        let at = usize::from(slot.0.get()) - 1;
        if let Some(deadline) = self.deadlines.get_mut(at) {
            *deadline = None;
        }
    }

    /// Records a success and returns their number.
    pub(super) fn succeed(&mut self) -> u32 {
        self.succeeded = self.succeeded.saturating_add(1);
        self.succeeded
    }

    /// Records a neutral response and returns their number.
    pub(super) fn respond_neutrally(&mut self) -> u32 {
        self.neutral = self.neutral.saturating_add(1);
        self.neutral
    }

    /// Returns the number of probes in flight.
    pub(super) fn in_flight(&self) -> u32 {
        self.deadlines.iter().flatten().fold(0, |in_flight, _| in_flight + 1)
    }

    /// Returns the first deadline.
    pub(super) fn first_deadline(&self) -> Option<Nanos> {
        self.deadlines.iter().flatten().min().copied()
    }
}
