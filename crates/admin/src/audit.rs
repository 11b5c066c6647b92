//! Audit log of operator changes.
//!
//! Memory holds the last changes. Each is also an event, so that the log and the live stream contain it. Reads
//! are not recorded.

use std::collections::VecDeque;

use outflow::event::EventKind;
use outflow::{Event, Events};
use outflow_core::Clock;
use outflow_sync::Mutex;
use serde::Serialize;
use smol_str::{SmolStr, format_smolstr};

use super::millis::stamp;

/// Last changes by operators.
#[derive(Debug, Default)]
pub(crate) struct AuditLog {
    entries: Mutex<VecDeque<AuditEntry>>,
}

/// Recorded change.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct AuditEntry {
    at: u64,
    who: SmolStr,
    #[serde(flatten)]
    change: AuditChange,
}

/// Change to record.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct AuditChange {
    /// Identifier of the change.
    pub(crate) action: &'static str,
    /// API that it affects, if any.
    pub(crate) api: Option<SmolStr>,
    /// Group, tenant or action that it affects, if any.
    pub(crate) group: Option<SmolStr>,
    /// Reason that the operator gave.
    pub(crate) reason: Option<SmolStr>,
}

impl AuditLog {
    /// Records a change and emits an event.
    pub(crate) fn record(&self, change: AuditChange, actor: &AuditActor, clock: &impl Clock, events: &Events) {
        let entry = AuditEntry {
            at: stamp(clock.wall()),
            who: actor.0.clone(),
            change: AuditChange {
                reason: change.reason.map(truncate),
                ..change
            },
        };
        {
            let mut entries = self.entries.lock();
            if entries.len() >= MAX_ENTRIES {
                entries.pop_front();
            }
            entries.push_back(entry.clone());
        }
        events.emit(|| Event {
            api: entry.change.api.clone().unwrap_or(PROGRAM),
            at: clock.now(),
            trace: outflow::trace::TraceId::default(),
            what: EventKind::Operated {
                group: entry.change.group.clone(),
                action: entry.change.action,
                who: entry.describe(),
            },
        });
    }

    /// Returns the changes, newest first.
    pub(crate) fn newest_first(&self) -> Vec<AuditEntry> {
        self.entries.lock().iter().rev().cloned().collect()
    }
}

impl AuditEntry {
    fn describe(&self) -> SmolStr {
        match &self.change.reason {
            Some(reason) => format_smolstr!("{}: {reason}", self.who),
            None => self.who.clone(),
        }
    }
}

/// Author of a change: the origin of the connection, because nothing else is known.
#[derive(Clone, Debug)]
pub(crate) struct AuditActor(pub(crate) SmolStr);

impl AuditActor {
    /// Formats the author with the reason of a change.
    pub(crate) fn describe(&self, reason: Option<&str>) -> String {
        let reason = reason.map(|reason| format!(" ({reason})"));
        format!("{}{}", self.0, reason.unwrap_or_default())
    }
}

/// Cuts a reason to a sentence or two.
pub(crate) fn truncate(text: SmolStr) -> SmolStr {
    let end = text.floor_char_boundary(MAX_REASON.min(text.len()));
    text.get(..end).map(SmolStr::new).unwrap_or_default()
}

/// Name in place of an API for changes of the program.
const PROGRAM: SmolStr = SmolStr::new_static("outflow");

/// A year of manual operation, or 17 minutes of a script that makes a change every second.
const MAX_ENTRIES: usize = 1_000;

/// A sentence or two; a thousand of them are half a megabyte.
const MAX_REASON: usize = 500;

#[cfg(test)]
mod tests {
    use outflow_core::{ManualClock, Nanos, WallTime};

    use super::*;

    fn record(audit: &AuditLog, reason: &str) {
        let clock = ManualClock::new(Nanos::ZERO, WallTime::from_unix_secs(1));
        let change = AuditChange {
            action: "reload",
            api: None,
            group: None,
            reason: Some(SmolStr::new(reason)),
        };
        audit.record(change, &AuditActor(SmolStr::new("me")), &clock, &Events::new());
    }

    // One change above the maximum: the oldest goes, and long reasons are truncated.
    #[test]
    fn the_log_holds_the_last_changes_within_bounded_memory() {
        let audit = AuditLog::default();
        record(&audit, "the first");
        for _ in 0..MAX_ENTRIES {
            record(&audit, &"ü".repeat(MAX_REASON));
        }
        let entries = audit.newest_first();
        assert_eq!(entries.len(), MAX_ENTRIES);
        let reasons = entries.iter().filter_map(|entry| entry.change.reason.as_deref());
        assert!(reasons.clone().all(|reason| reason.len() <= MAX_REASON));
        assert!(!reasons.clone().any(|reason| reason == "the first"));
    }
}
