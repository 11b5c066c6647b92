//! Who changed what, and when.
//!
//! The last changes are kept in memory for whoever asks; each is also an event, so that the log and
//! the live stream have it too, and the log for longer. Reading is not recorded.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use outflow::event::EventKind;
use outflow::{Event, Events};
use outflow_core::Clock;
use serde::Serialize;
use smol_str::{SmolStr, format_smolstr};

use super::millis::stamp;

/// The last changes that operators made.
#[derive(Debug, Default)]
pub(crate) struct AuditLog {
    entries: Mutex<VecDeque<AuditEntry>>,
}

/// One change.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct AuditEntry {
    at: u64,
    who: SmolStr,
    action: &'static str,
    api: Option<SmolStr>,
    group: Option<SmolStr>,
    reason: Option<SmolStr>,
}

/// A change that is being made.
#[derive(Clone, Debug)]
pub(crate) struct AuditChange {
    /// What is done.
    pub(crate) action: &'static str,
    /// The API, if it is about one.
    pub(crate) api: Option<SmolStr>,
    /// The group, if it is about one.
    pub(crate) group: Option<SmolStr>,
    /// Why, in the operator's words.
    pub(crate) reason: Option<SmolStr>,
}

impl AuditLog {
    /// Notes a change and tells of it.
    pub(crate) fn note(
        &self,
        change: AuditChange,
        who: &AuditActor,
        clock: &impl Clock,
        events: &Events,
    ) {
        let entry = AuditEntry {
            at: stamp(clock.wall()),
            who: who.0.clone(),
            action: change.action,
            api: change.api,
            group: change.group,
            reason: change.reason.map(short),
        };
        {
            let mut entries = self.entries();
            if entries.len() >= KEPT {
                entries.pop_front();
            }
            entries.push_back(entry.clone());
        }
        events.emit(|| Event {
            api: entry.api.clone().unwrap_or(OURSELVES),
            at: clock.now(),
            what: EventKind::Operated {
                group: entry.group.clone(),
                action: entry.action,
                who: entry.describe(),
            },
        });
    }

    /// The changes, the newest first.
    pub(crate) fn newest_first(&self) -> Vec<AuditEntry> {
        self.entries().iter().rev().cloned().collect()
    }

    fn entries(&self) -> MutexGuard<'_, VecDeque<AuditEntry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AuditEntry {
    fn describe(&self) -> SmolStr {
        match &self.reason {
            Some(reason) => format_smolstr!("{}: {reason}", self.who),
            None => self.who.clone(),
        }
    }
}

/// Who asks, as far as that can be known: where the connection comes from.
#[derive(Clone, Debug)]
pub(crate) struct AuditActor(pub(crate) SmolStr);

fn short(text: SmolStr) -> SmolStr {
    let end = text.floor_char_boundary(LONGEST_REASON.min(text.len()));
    text.get(..end).map(SmolStr::new).unwrap_or_default()
}

/// What is about no API is about the program.
const OURSELVES: SmolStr = SmolStr::new_static("outflow");

/// A year of careful operation; a script that changes something every second has twenty minutes.
const KEPT: usize = 1_000;

/// A sentence or two; a thousand of them are half a megabyte.
const LONGEST_REASON: usize = 500;

#[cfg(test)]
mod tests {
    use outflow_core::{ManualClock, Nanos, WallTime};

    use super::*;

    fn note(audit: &AuditLog, reason: &str) {
        let clock = ManualClock::new(Nanos::ZERO, WallTime::from_unix_secs(1));
        let change = AuditChange {
            action: "reload",
            api: None,
            group: None,
            reason: Some(SmolStr::new(reason)),
        };
        audit.note(
            change,
            &AuditActor(SmolStr::new("me")),
            &clock,
            &Events::new(),
        );
    }

    // One more than is kept: the oldest goes, and no reason takes more than its share.
    #[test]
    fn the_last_changes_are_kept_and_memory_is_bounded() {
        let audit = AuditLog::default();
        note(&audit, "the first");
        for _ in 0..KEPT {
            note(&audit, &"ü".repeat(LONGEST_REASON));
        }
        let entries = audit.newest_first();
        assert_eq!(entries.len(), KEPT);
        let reasons = entries.iter().filter_map(|entry| entry.reason.as_deref());
        assert!(reasons.clone().all(|reason| reason.len() <= LONGEST_REASON));
        assert!(!reasons.clone().any(|reason| reason == "the first"));
    }
}
