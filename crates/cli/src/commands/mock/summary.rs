//! Summary of the requests that the mock API counted.

use std::fmt;

use outflow_mock::{MockApi, Quota, Totals};
use serde_json::{Map, Value, json};

use super::flags;

/// Audit of a run.
pub(super) struct MockSummary {
    totals: Totals,
    /// Requests that came before the end of a Retry-After.
    early: usize,
    /// Each limit, and the largest number of requests in any window of its length.
    peaks: Vec<(String, u64)>,
}

impl MockSummary {
    /// Returns the current audit of an API.
    pub(super) fn new(api: &MockApi, limits: &[Quota]) -> Self {
        let audit = api.audit();
        let peak = |quota: &Quota| {
            let peak = audit.most_in_any_window(quota.window());
            (flags::format_limit(quota), peak)
        };
        Self {
            totals: api.totals(),
            early: audit.sent_before_retry_after().len(),
            peaks: limits.iter().map(peak).collect(),
        }
    }

    /// Returns the audit as JSON.
    pub(super) fn json(&self) -> Value {
        let limit = |(limit, peak): &(String, u64)| json!({ "limit": limit, "most_in_any_window": peak });
        let statuses = self.totals.by_status.iter();
        let by_status: Map<_, _> = statuses
            .map(|(status, count)| (status.to_string(), json!(count)))
            .collect();
        json!({
            "seen": self.totals.seen,
            "allowed": self.totals.allowed,
            "refused": self.totals.refused,
            "failed_on_purpose": self.totals.scripted,
            "sent_too_early": self.early,
            "limits": self.peaks.iter().map(limit).collect::<Vec<_>>(),
            "by_status": by_status,
        })
    }
}

impl fmt::Display for MockSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Totals { seen, refused, .. } = &self.totals;
        let early = self.early;
        writeln!(
            f,
            "{seen} seen, {refused} throttled, {early} sent before the end of Retry-After"
        )?;
        for (limit, peak) in &self.peaks {
            writeln!(f, "{limit}: at most {peak} in any window")?;
        }
        Ok(())
    }
}
