//! The probes that are out while an API is half open.
//!
//! Each has a slot with its own deadline. A counter would be smaller, and would not know when the
//! oldest was sent: a probe that hangs would then hold the machine half open for as long as it likes.

use core::num::NonZeroU8;
use core::time::Duration;

use crate::Nanos;

/// As many as can be told apart by the slots kept; more than a few are load, not probes.
pub(super) const MOST_PROBES: u32 = 8;

/// The slots and the good and neutral answers so far.
#[derive(Clone, Copy, Debug)]
pub(super) struct ProbeSlots {
    /// When the probe in this slot is given up; a free slot has none.
    deadlines: [Option<Nanos>; 8],
    succeeded: u32,
    neutral: u32,
}

/// Which slot a probe has, counted from 1: a ticket with no slot then fits two registers, which is
/// worth a third of an ordinary request's way through the machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct ProbeSlot(NonZeroU8);

impl ProbeSlots {
    pub(super) const NONE: Self = Self {
        deadlines: [None; 8],
        succeeded: 0,
        neutral: 0,
    };

    /// A slot for a probe sent now, if fewer than `most` are out.
    pub(super) fn send(&mut self, now: Nanos, timeout: Duration, most: u32) -> Option<ProbeSlot> {
        if self.out() >= most {
            return None;
        }
        let (number, free) = (1_u8..)
            .zip(&mut self.deadlines)
            .find(|(_, deadline)| deadline.is_none())?;
        *free = Some(now.saturating_add(timeout));
        NonZeroU8::new(number).map(ProbeSlot)
    }

    /// Gives a slot back.
    pub(super) fn free(&mut self, slot: ProbeSlot) {
        let at = usize::from(slot.0.get()) - 1;
        if let Some(deadline) = self.deadlines.get_mut(at) {
            *deadline = None;
        }
    }

    /// Notes a success and tells how many there are.
    pub(super) fn succeed(&mut self) -> u32 {
        self.succeeded = self.succeeded.saturating_add(1);
        self.succeeded
    }

    /// Notes a neutral answer and tells how many there are.
    pub(super) fn answer_neutrally(&mut self) -> u32 {
        self.neutral = self.neutral.saturating_add(1);
        self.neutral
    }

    /// How many are out.
    pub(super) fn out(&self) -> u32 {
        self.deadlines.iter().flatten().fold(0, |out, _| out + 1)
    }

    /// When the first of them is given up.
    pub(super) fn first_deadline(&self) -> Option<Nanos> {
        self.deadlines.iter().flatten().min().copied()
    }
}
