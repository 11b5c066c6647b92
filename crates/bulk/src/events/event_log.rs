//! What of the engine's news an operator reads in the log.
//!
//! Not the jobs: each is a call that the log tells of anyway. A store that is away is asked many times a
//! second; that it is away is told once, and now and then while it lasts.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use outflow::event::EventKind;
use outflow_core::Nanos;
use outflow_store::ActionStage;

use crate::events::BulkEvent;

/// Remembers what it said.
#[derive(Debug, Default)]
pub(crate) struct EventLog {
    last: Mutex<Option<(String, Nanos)>>,
}

impl EventLog {
    /// What there is to say of it.
    pub(crate) fn classify(&self, news: &BulkEvent, now: Nanos) -> Option<EventKind> {
        let (event, words, alarming) = match news {
            BulkEvent::Submitted { .. } | BulkEvent::Settled { .. } => return None,
            BulkEvent::Trouble { words } if self.is_old(words, now) => return None,
            BulkEvent::Trouble { words } => ("bulk_trouble", words.clone(), true),
            BulkEvent::Finished { report } if report.stage != ActionStage::Failed => return None,
            BulkEvent::Finished { report } => {
                let (id, cancelled) = (&report.spec.id, report.tally.cancelled);
                let words = format!(
                    "action {id} took longer than it may: {cancelled} jobs of it were cancelled"
                );
                ("bulk_action_failed", words, true)
            }
            BulkEvent::Reaped { returned, buried } => (
                "bulk_reaped",
                format!(
                    "of workers that died {returned} jobs are back in line, {buried} were buried"
                ),
                true,
            ),
            BulkEvent::LeaseLost => (
                "bulk_lease_lost",
                "this process was away for longer than its lease: others have its jobs".to_owned(),
                true,
            ),
            BulkEvent::Alert {
                tenant,
                alert,
                raised,
            } => {
                let state = if *raised { "raised" } else { "over" };
                let (name, advice) = (alert.name(), alert.advice());
                let words = format!("{name} of tenant {tenant} is {state}: {advice}");
                ("bulk_alert", words, *raised)
            }
            BulkEvent::Drift { jobs } => (
                "bulk_drift",
                format!("the store's counts and its jobs differ by {jobs}"),
                true,
            ),
        };
        Some(EventKind::Jobs {
            event,
            words: words.into_boxed_str(),
            alarming,
        })
    }

    /// Whether the same was said just now.
    fn is_old(&self, words: &str, now: Nanos) -> bool {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((said, at)) = &*last
            && said == words
            && now.since(*at) < SAID_AGAIN
        {
            return true;
        }
        *last = Some((words.to_owned(), now));
        false
    }
}

/// Often enough for whoever begins to read, and few beside everything else.
const SAID_AGAIN: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use super::*;

    // A store that is away for a minute is asked six hundred times.
    #[test]
    fn the_same_trouble_is_told_twice_a_minute() {
        let voice = EventLog::default();
        let trouble = |words: &str| BulkEvent::Trouble {
            words: words.to_owned(),
        };
        let told = |words: &str, ms| {
            let told = voice.classify(&trouble(words), Nanos::from_millis(ms));
            usize::from(told.is_some())
        };
        let away: usize = (0..600).map(|n| told("away", n * 100)).sum();
        assert_eq!(away, 2);
        assert_eq!(told("full", 60_000), 1, "something else");
    }
}
