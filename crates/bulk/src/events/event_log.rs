//! Events that reach the operator's log.
//!
//! Jobs are not among them: the client logs each call. An unreachable store fails many times a second; the log
//! says so once, and again in an interval while it lasts.

use std::time::Duration;

use outflow::event::EventKind;
use outflow_core::Nanos;
use outflow_store::ActionStage;
use outflow_sync::Mutex;

use super::BulkEvent;

/// Filter that suppresses repeated errors.
#[derive(Debug, Default)]
pub(crate) struct EventLog {
    last: Mutex<Option<(String, Nanos)>>,
}

impl EventLog {
    /// Returns the log entry of an event, if it has one.
    pub(crate) fn classify(&self, event: &BulkEvent, now: Nanos) -> Option<EventKind> {
        let (event, words, alarming) = match event {
            BulkEvent::Error { message } if self.is_repeated(message, now) => return None,
            event => describe(event)?,
        };
        Some(EventKind::Jobs {
            event,
            words: words.into_boxed_str(),
            alarming,
        })
    }

    /// Returns true if the last message is the same and recent.
    fn is_repeated(&self, message: &str, now: Nanos) -> bool {
        let mut last = self.last.lock();
        if let Some((logged, at)) = &*last
            && logged == message
            && now.since(*at) < REPEAT_AFTER
        {
            return true;
        }
        *last = Some((message.to_owned(), now));
        false
    }
}

/// Returns name, text and alarm of an event that an operator needs.
fn describe(event: &BulkEvent) -> Option<(&'static str, String, bool)> {
    Some(match event {
        BulkEvent::Submitted { .. } | BulkEvent::Settled { .. } => return None,
        BulkEvent::Error { message } => ("bulk_trouble", message.clone(), true),
        BulkEvent::Finished { report } if report.stage != ActionStage::Failed => return None,
        BulkEvent::Finished { report } => {
            let (id, cancelled) = (&report.spec.id, report.counts.cancelled);
            let words = format!("action {id} reached its timeout: cancelled {cancelled} of its jobs");
            ("bulk_action_failed", words, true)
        }
        BulkEvent::Reaped {
            returned,
            dead_lettered,
        } => {
            let words = format!("recovered {returned} jobs from dead workers, dead-lettered {dead_lettered}");
            ("bulk_reaped", words, true)
        }
        BulkEvent::LeaseLost => {
            let words = "this process stalled for longer than its lease: others have its jobs";
            ("bulk_lease_lost", words.to_owned(), true)
        }
        BulkEvent::Alert { tenant, alert, raised } => {
            let state = if *raised { "raised" } else { "over" };
            let (name, advice) = (alert.name(), alert.advice());
            let words = format!("{name} of tenant {tenant} is {state}: {advice}");
            ("bulk_alert", words, *raised)
        }
        BulkEvent::Drift { jobs } => {
            let words = format!("the store's counts and its jobs differ by {jobs}");
            ("bulk_drift", words, true)
        }
    })
}

/// Often enough for a reader who joins later, and few among all other entries.
const REPEAT_AFTER: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use super::*;

    // An unreachable store fails six hundred times in a minute.
    #[test]
    fn a_repeated_error_is_logged_twice_a_minute() {
        let log = EventLog::default();
        let logged = |message: &str, ms| {
            let message = message.to_owned();
            let event = BulkEvent::Error { message };
            usize::from(log.classify(&event, Nanos::from_millis(ms)).is_some())
        };
        let away: usize = (0..600).map(|n| logged("away", n * 100)).sum();
        assert_eq!(away, 2);
        assert_eq!(logged("full", 60_000), 1, "another error");
    }
}
