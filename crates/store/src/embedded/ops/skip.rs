//! Jobs whose turn it is and that do not go: cancelled, held back, damaged or too late.

use std::time::Duration;

use outflow_core::ClockPair;

use super::claim::JobCheck;
use super::transitions::{JobCountState, JobEnding};
use crate::embedded::disk::checksum::DAMAGED;
use crate::embedded::disk::int_codec::many;
use crate::embedded::state::StoreState;
use crate::embedded::state::action::ActionEnd;
use crate::embedded::state::job_entry::JobPosition;
use crate::embedded::state::priority_classes::CLASSES;
use crate::error::StoreError;
use crate::settle::JobStatus;

impl StoreState {
    /// What happens to the first job instead of being given out. Nobody is asked for a permit before.
    pub(crate) fn divert(
        &mut self,
        seq: u64,
        place: JobPosition,
        moment: ClockPair,
    ) -> Result<Option<JobCheck>, StoreError> {
        let Some(bar) = self.bar(seq, place, moment) else {
            return Ok(None);
        };
        let ended = match bar {
            SkipReason::Held => return Ok(self.hold(seq, place)),
            SkipReason::Cancelled => JobStatus::Cancelled,
            // Of a job that is not what was submitted nothing else is believed.
            SkipReason::None | SkipReason::TooLate if !self.has_body(seq, place)? => {
                self.mishap(seq, DAMAGED.to_owned(), moment);
                JobStatus::Failed
            }
            SkipReason::TooLate => JobStatus::Expired,
            SkipReason::None => return Ok(None),
        };
        Ok(self.turn_away(seq, place, ended, moment))
    }

    fn bar(&self, seq: u64, place: JobPosition, moment: ClockPair) -> Option<SkipReason> {
        let entry = self.line(place)?.front.get(&seq)?;
        let action = entry.action.map(|id| self.actions.get(&id));
        let is_over = match action {
            Some(Some(action)) => action.state.fate != ActionEnd::Open,
            Some(None) => true,
            None => false,
        };
        let is_paused = action.flatten().is_some_and(|action| action.state.paused);
        let too_late = entry.deadline.is_some_and(|at| at <= moment.wall);
        Some(
            if is_over || seq <= self.tenants.get(&place.tenant)?.doomed_to {
                SkipReason::Cancelled
            } else if too_late {
                SkipReason::TooLate
            } else if is_paused {
                SkipReason::Held
            } else {
                SkipReason::None
            },
        )
    }

    /// Ends jobs at the heads of some lines that are too late to begin, whether anything of their lines goes or
    /// not, and answers how many. What was not read yet waits until it is.
    pub(crate) fn expire(&mut self, most: usize, moment: ClockPair) -> u64 {
        let mut ended = 0;
        for place in self.some_places() {
            while ended < most
                && let Some(seq) = self.late_head(place, moment)
                && self
                    .turn_away(seq, place, JobStatus::Expired, moment)
                    .is_some()
            {
                ended += 1;
            }
        }
        many(ended)
    }

    /// The lines of the next tenants after those that were looked at before.
    fn some_places(&mut self) -> Vec<JobPosition> {
        let (mut places, mut left) = (Vec::new(), LOOKED_AT_ONCE);
        let (from, mut slot) = self.looked_at;
        self.looked_at = (0, 0);
        for (id, lane) in self.lanes.range(from..) {
            let tenants = lane.slots.iter().enumerate().skip(slot);
            for (at, tenant) in tenants {
                if left == 0 {
                    self.looked_at = (*id, at);
                    return places;
                }
                left -= 1;
                let lines = lane.seats.get(tenant).map(|seat| &seat.lines);
                places.extend(CLASSES.into_iter().filter_map(|class| {
                    let line = lines?.get(class).id;
                    Some(JobPosition {
                        line,
                        lane: *id,
                        tenant: *tenant,
                        class,
                    })
                }));
            }
            slot = 0;
        }
        places
    }

    fn late_head(&self, place: JobPosition, moment: ClockPair) -> Option<u64> {
        let line = self.line(place)?;
        let seq = *line.front.first_key_value()?.0;
        let unread = line.runs.front().is_some_and(|run| run.first < seq);
        let late = !unread && self.bar(seq, place, moment) == Some(SkipReason::TooLate);
        late.then_some(seq)
    }

    /// Ends the first job without its turn.
    fn turn_away(
        &mut self,
        seq: u64,
        place: JobPosition,
        ended: JobStatus,
        moment: ClockPair,
    ) -> Option<JobCheck> {
        let entry = self.pull(seq, place)?;
        self.end(JobEnding {
            seq,
            entry,
            from: JobCountState::InLine,
            ended,
            at: moment.wall,
            took: Duration::ZERO,
            kept: None,
        });
        Some(match ended {
            JobStatus::Expired => JobCheck::Expired,
            _ => JobCheck::Passed,
        })
    }

    /// Puts the first job aside until its action goes on.
    fn hold(&mut self, seq: u64, place: JobPosition) -> Option<JobCheck> {
        let entry = self.pull(seq, place)?;
        let action = self.actions.get_mut(&entry.action?)?;
        action.held.insert(seq, entry);
        Some(JobCheck::Passed)
    }
}

/// What stands before a job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum SkipReason {
    None,
    TooLate,
    Held,
    Cancelled,
}

/// As many tenants as a look takes less than a millisecond for.
const LOOKED_AT_ONCE: usize = 2_000;
