//! Probes in flight while an API is half open.
//!
//! Each has a slot with the time it was sent. A counter would be smaller, but it would not know when
//! the oldest was sent: a hanging probe would keep the machine half open for ever.

use core::num::NonZeroU8;

use crate::Nanos;

/// The number of slots; more than a few are load, not probes.
pub(super) const MAX_PROBES: u32 = 8;

/// The slots, and the good and neutral responses so far.
#[derive(Clone, Copy, Debug)]
pub(super) struct ProbeSlots {
    /// Time at which the probe in this slot was sent; a free slot has none.
    sent: [Option<Nanos>; 8],
    succeeded: u32,
    neutral: u32,
}

/// Slot of a probe, counted from 1: a ticket with no slot then fits two registers, which saves a
/// third of an ordinary request's time in the machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct ProbeSlot(NonZeroU8);

impl ProbeSlots {
    pub(super) const NONE: Self = Self {
        sent: [None; 8],
        succeeded: 0,
        neutral: 0,
    };

    /// Allocates a slot for a probe sent now, if fewer than `max` are in flight.
    pub(super) fn send(&mut self, now: Nanos, max: u32) -> Option<ProbeSlot> {
        if self.in_flight() >= max {
            return None;
        }
        let (number, free) = (1_u8..).zip(&mut self.sent).find(|(_, sent)| sent.is_none())?;
        *free = Some(now);
        NonZeroU8::new(number).map(ProbeSlot)
    }

    /// Frees a slot and returns the time at which its probe was sent.
    pub(super) fn free(&mut self, slot: ProbeSlot) -> Option<Nanos> {
        let at = usize::from(slot.0.get()) - 1;
        self.sent.get_mut(at)?.take()
    }

    /// Records a success.
    pub(super) const fn succeed(&mut self) {
        self.succeeded = self.succeeded.saturating_add(1);
    }

    /// Records a neutral response.
    pub(super) const fn respond_neutrally(&mut self) {
        self.neutral = self.neutral.saturating_add(1);
    }

    /// Returns the weight of the good responses in neutral ones.
    pub(super) const fn weight(&self, neutral_per_success: u32) -> u32 {
        self.succeeded
            .saturating_mul(neutral_per_success)
            .saturating_add(self.neutral)
    }

    /// Returns the number of good responses.
    pub(super) const fn good(&self) -> u32 {
        self.succeeded.saturating_add(self.neutral)
    }

    /// Returns the number of probes in flight.
    pub(super) fn in_flight(&self) -> u32 {
        self.sent.iter().flatten().fold(0, |in_flight, _| in_flight + 1)
    }

    /// Returns the time at which the oldest probe was sent.
    pub(super) fn first_sent(&self) -> Option<Nanos> {
        self.sent.iter().flatten().min().copied()
    }
}
