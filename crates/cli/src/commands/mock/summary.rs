//! What the strict API saw, told at its end.

use std::fmt;

use outflow_mock::{MockApi, Quota, Totals};
use serde_json::{Map, Value, json};

use super::flags;

/// The audit of a run.
pub(super) struct MockSummary {
    totals: Totals,
    /// Sent before the time that the server had asked to wait for.
    early: usize,
    /// Each limit, and the most requests in any window of its length.
    most: Vec<(String, u64)>,
}

impl MockSummary {
    /// As it stands now.
    pub(super) fn new(api: &MockApi, limits: &[Quota]) -> Self {
        let audit = api.audit();
        let most = |quota: &Quota| {
            let most = audit.most_in_any_window(quota.window());
            (flags::named(quota), most)
        };
        Self {
            totals: api.totals(),
            early: audit.sent_before_retry_after().len(),
            most: limits.iter().map(most).collect(),
        }
    }

    /// For programs.
    pub(super) fn json(&self) -> Value {
        let limit =
            |(limit, most): &(String, u64)| json!({ "limit": limit, "most_in_any_window": most });
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
            "limits": self.most.iter().map(limit).collect::<Vec<_>>(),
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
            "{seen} seen, {refused} refused, {early} sent before they were asked to"
        )?;
        for (limit, most) in &self.most {
            writeln!(f, "{limit}: at most {most} in any window")?;
        }
        Ok(())
    }
}
