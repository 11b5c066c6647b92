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
    /// Returns a warning if the limits need longer for an action than its timeout.
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
        let timeout = report.spec.timeout;
        Ok((bound.span > timeout).then(|| {
            let because = bound.because.map_or(String::new(), |because| format!(", by {because}"));
            format!(
                "the action takes at least {}{because}, and fails if no job of it ends for {}: set a longer \
                 `--timeout` if it may have to wait that long",
                span(bound.span),
                span(timeout)
            )
        }))
    }
}
