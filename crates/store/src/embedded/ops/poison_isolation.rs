//! A job that may be what its workers die of goes alone.
//!
//! When a process dies, nobody knows which of the jobs it had was the reason: all of them come back, begin together
//! again, and would be buried together when it has happened too often. So one whose next loss is its last is given
//! out while nothing else is under way, and nothing is given out beside it: if the process dies again, it was this
//! job, or chance. It is decided here and not where jobs are done, because whatever was given out is lost with the
//! process, whether somebody had begun it or not.
//!
//! Until it can go, nothing more is given out in any lane, which is as long as the longest attempt. If it cannot go
//! then, because it gets no permit, it has held everybody up in vain and stays back for much longer than that.

use std::time::Duration;

use outflow_core::Nanos;

use crate::embedded::state::StoreState;
use crate::embedded::state::claims::ClaimState;
use crate::embedded::state::job_entry::{JobEntry, JobPosition};

/// Everybody waits until this one can go alone.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IsolationDrain {
    lane: u32,
    tenant: u32,
    since: Nanos,
    /// Nothing is under way any more, and others wait for it until then.
    until: Option<Nanos>,
    /// Whether the last look at its lane found it at the head.
    stands: bool,
}

/// A lane that has to wait for another's job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct HeldUp {
    /// How long, if no ring tells.
    pub(crate) left: Option<Duration>,
}

impl StoreState {
    /// Whether a lane has to wait for one that goes alone, or is to.
    pub(crate) fn held_up(&mut self, lane: u32, now: Nanos) -> Option<HeldUp> {
        if self.claims.has_alone() {
            return Some(HeldUp { left: None });
        }
        let idle = self.claims.by_job.is_empty();
        let drain = self.drain.as_mut()?;
        if drain.lane == lane {
            drain.stands = false;
            return None;
        }
        if !idle {
            return Some(HeldUp { left: None });
        }
        let until = *drain
            .until
            .get_or_insert_with(|| now.saturating_add(PATIENCE));
        if until > now {
            let left = Some(until.since(now));
            return Some(HeldUp { left });
        }
        self.send_back(now);
        None
    }

    /// Ends the wait of others for a job that does not stand at the head of its lane any more.
    pub(crate) fn let_others_go(&mut self, lane: u32) {
        let over = |drain: &mut IsolationDrain| drain.lane == lane && !drain.stands;
        if self.drain.take_if(over).is_some() {
            self.rings = true;
        }
    }

    /// Whether the first job of a line is on its last chance.
    pub(crate) fn is_suspect(&self, seq: u64, place: JobPosition, recoveries: u32) -> bool {
        let first = self.line(place).and_then(|line| line.front.get(&seq));
        first.is_some_and(|entry| is_last_chance(entry, recoveries))
    }

    /// Has everybody wait until this tenant's first job can go alone.
    pub(crate) fn wait_alone(&mut self, place: JobPosition, now: Nanos) {
        let JobPosition { lane, tenant, .. } = place;
        let before = self
            .drain
            .filter(|of| of.lane == lane && of.tenant == tenant);
        self.drain = Some(IsolationDrain {
            lane,
            tenant,
            since: before.map_or(now, |of| of.since),
            until: None,
            stands: true,
        });
    }

    /// It could go alone, and its lane has no permit now: others wait a little longer.
    pub(crate) fn wait_on(&mut self, place: JobPosition, now: Nanos) {
        let until = self.drain.and_then(|of| of.until);
        self.wait_alone(place, now);
        if let Some(drain) = &mut self.drain {
            drain.until = until.or(Some(now.saturating_add(PATIENCE)));
        }
    }

    /// Until when a tenant stays back that may not go: longer, if it held others up for that.
    pub(crate) fn in_vain(&mut self, place: JobPosition, now: Nanos) -> Nanos {
        let its = |of: &mut IsolationDrain| of.lane == place.lane && of.tenant == place.tenant;
        let Some(drain) = self.drain.take_if(its) else {
            return now;
        };
        self.rings = true;
        drain.stays_back(now)
    }

    /// Nobody waits any longer for a job that could have gone alone, and did not.
    fn send_back(&mut self, now: Nanos) {
        let Some(drain) = self.drain.take() else {
            return;
        };
        self.rings = true;
        self.park(drain.lane, drain.tenant, drain.stays_back(now));
    }

    /// This one is under way, and nothing else is until it is over.
    pub(crate) fn goes_alone(&mut self, seq: u64) {
        self.claims.alone = Some(seq);
        self.drain = None;
    }

    /// Takes a claim out, and rings if somebody waits for that.
    pub(crate) fn unclaim(&mut self, seq: u64) -> Option<ClaimState> {
        let was_alone = self.claims.alone == Some(seq);
        let claim = self.claims.remove(seq)?;
        let awaited = self.drain.is_some() && self.claims.by_job.is_empty();
        self.rings |= was_alone || awaited;
        Some(claim)
    }
}

impl IsolationDrain {
    fn stays_back(&self, now: Nanos) -> Nanos {
        now.saturating_add(now.since(self.since).saturating_mul(STAYS_BACK))
    }
}

/// Whether a job is buried if its worker is lost with it once more.
pub(crate) const fn is_last_chance(entry: &JobEntry, recoveries: u32) -> bool {
    let lost = entry.tries.recoveries;
    lost > 0 && lost >= recoveries
}

/// Longer than a lane needs to hear the bell and to wait for a permit of a limit that has some left.
const PATIENCE: Duration = Duration::from_secs(1);

/// A job that gets no permit costs others an eleventh of their time at most.
const STAYS_BACK: u32 = 10;
