//! Warning at submission: an action that takes longer than its timeout.
//!
//! The timeout counts from the last progress, so a long action is not cut off while jobs end. But a queue, a pause or
//! an outage of that length ends it, and the submitter should know before.

use outflow_store::{JobStore, Name};

use crate::engine::Engine;
use crate::error::BulkError;
use crate::progress::stall::span;
use crate::progress::workload::Workload;

impl<S: JobStore> Engine<S> {
    /// Returns a warning if an action takes longer than its timeout, by limits or by the rest of a sleep.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn timeout_warning(&self, action: &Name) -> Result<Option<String>, BulkError> {
        let context = &self.context;
        let Some(report) = context.store.action(action).await? else {
            return Ok(None);
        };
        let workload = Workload::from(&context.store.remaining(action).await?);
        let bound = workload.lower_bound(&context.client, &context.settings.load(), context.clock.wall());
        let (timeout, eta) = (report.spec.timeout, self.report_progress(&report).await?.eta);
        let longest = Some(bound.span)
            .filter(|span| *span > timeout)
            .or(eta)
            .unwrap_or_default();
        Ok((longest > timeout).then(|| {
            let because = bound.because.filter(|_| bound.span > timeout);
            let because = because.map_or(String::new(), |because| format!(", by {because}"));
            format!(
                "the action takes at least {}{because}, and fails if no job of it ends for {}: set a longer \
                 `--timeout` if it may have to wait that long",
                span(longest),
                span(timeout)
            )
        }))
    }
}
