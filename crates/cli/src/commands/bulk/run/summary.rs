//! Summary of a run, as text and as JSON.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use outflow_bulk::{TenantBounds, views};
use serde_json::{Value, json};

use super::line_results::LineCounts;
use super::run_loop::{LoopEnd, UnfinishedCounts};
use crate::exit::Exit;
use crate::terminal::{format_span, millis};

/// Summary of a run.
pub(super) struct RunSummary {
    pub(super) ended: LoopEnd,
    pub(super) dir: PathBuf,
    pub(super) out: Option<PathBuf>,
    pub(super) counted: LineCounts,
    /// Jobs that ended in this run, and its duration.
    pub(super) ended_here: u64,
    pub(super) spent: Duration,
    /// Least time that the limits allow.
    pub(super) bounds: Option<TenantBounds>,
    /// Bounds other than limits that held jobs back.
    pub(super) bottlenecks: BTreeSet<String>,
    /// Attempts and throttles of jobs that are not over.
    pub(super) unfinished: UnfinishedCounts,
    /// What jobs waited for at the last look.
    pub(super) waits: Vec<String>,
}

impl RunSummary {
    /// Returns the exit code.
    pub(super) const fn exit(&self) -> Exit {
        match self.ended {
            LoopEnd::Interrupted => Exit::Interrupted,
            LoopEnd::Unserved(_) | LoopEnd::Stalled(_) => Exit::SomeFailed,
            LoopEnd::Finished if self.counted.over() > self.counted.done => Exit::SomeFailed,
            LoopEnd::Finished => Exit::Done,
        }
    }

    /// Formats the summary as text.
    pub(super) fn to_text(&self) -> String {
        let counted = &self.counted;
        let mut parts = vec![format!("{} done", counted.done)];
        for (count, word) in [
            (counted.failed, "failed"),
            (counted.expired, "expired"),
            (counted.cancelled, "cancelled"),
        ] {
            if count > 0 {
                parts.push(format!("{count} {word}"));
            }
        }
        let mut lines = vec![format!(
            "{} jobs{}: {}; {} attempts, {} throttled ({} a job)",
            counted.over(),
            if self.is_unfinished() { " over" } else { "" },
            parts.join(", "),
            self.attempts(),
            self.throttles(),
            ratio(counted.throttles, counted.over()),
        )];
        if !counted.failures.is_empty() {
            lines.push(format!("not done: {}", counted.failures));
        }
        lines.extend(self.comparison());
        if self.is_unfinished() {
            lines.extend(self.waits.iter().cloned());
        }
        lines.extend(self.bottlenecks.iter().cloned());
        lines.extend(self.advice());
        lines.join("\n")
    }

    const fn is_unfinished(&self) -> bool {
        matches!(self.ended, LoopEnd::Interrupted | LoopEnd::Stalled(_))
    }

    /// Returns the attempts of all jobs, over or not.
    const fn attempts(&self) -> u64 {
        self.counted.attempts + self.unfinished.attempts
    }

    /// Returns the throttles of all jobs, over or not.
    const fn throttles(&self) -> u64 {
        self.counted.throttles + self.unfinished.throttles
    }

    /// Compares the ideal with the actual time, if the run had work.
    fn comparison(&self) -> Option<String> {
        let bounds = self.bounds.as_ref().filter(|_| self.ended_here > 0)?;
        let (ideal, actual) = (format_span(bounds.ideal), format_span(self.spent));
        Some(match self.ended {
            LoopEnd::Finished | LoopEnd::Unserved(_) => {
                format!("ideal {ideal} (by {}), actual {actual}", bounds.because)
            }
            LoopEnd::Interrupted | LoopEnd::Stalled(_) => {
                format!("{} in {actual}; the ideal for all is {ideal}", self.ended_here)
            }
        })
    }

    fn advice(&self) -> Option<String> {
        let dir = self.dir.display();
        match &self.ended {
            LoopEnd::Interrupted => Some(format!("jobs are stored in {dir}: repeat the command to resume")),
            LoopEnd::Stalled(span) => Some(format!(
                "no job has ended for {}, because the API fails: jobs are stored in {dir}, repeat the command to resume",
                format_span(*span)
            )),
            LoopEnd::Unserved(apis) => Some(format!(
                "the rest waits in {dir} for `{}`, which the configuration no longer has: add it, and \
                 repeat the command to resume",
                apis.join("` and `")
            )),
            LoopEnd::Finished if self.counted.failed > 0 => {
                let before = match self.ended_here {
                    0 => "all jobs were over before, and nothing was sent: ",
                    _ => "",
                };
                Some(format!(
                    "{before}repeat the command with `--retry-failed` to retry failed jobs"
                ))
            }
            LoopEnd::Finished if self.ended_here == 0 => Some(format!(
                "all jobs were over before, and nothing was sent: remove {dir} to run the file again"
            )),
            LoopEnd::Finished => None,
        }
    }

    /// Returns the summary as JSON.
    pub(super) fn to_json(&self) -> Value {
        let counted = &self.counted;
        let bounds = self.bounds.as_ref();
        let missing = match &self.ended {
            LoopEnd::Unserved(apis) => apis.as_slice(),
            LoopEnd::Finished | LoopEnd::Interrupted | LoopEnd::Stalled(_) => &[],
        };
        let tenants = counted
            .tenants
            .iter()
            .map(|(name, (over, not_done))| json!({ "tenant": name.as_str(), "over": over, "done": over - not_done }));
        json!({
            "finished": self.ended == LoopEnd::Finished,
            "missing_apis": missing,
            "dir": self.dir,
            "results": self.out,
            "jobs": counted.over(),
            "done": counted.done,
            "failed": counted.failed,
            "expired": counted.expired,
            "cancelled": counted.cancelled,
            "attempts": self.attempts(),
            "throttles": self.throttles(),
            "failures": views::failures(&counted.failures),
            "waits": self.waits,
            "in_this_sitting": self.ended_here,
            "ideal_ms": bounds.map(|bounds| millis(bounds.ideal)),
            "because": bounds.map(|bounds| bounds.because.as_str()),
            "actual_ms": millis(self.spent),
            "bottlenecks": self.bottlenecks,
            "tenants": tenants.collect::<Vec<_>>(),
        })
    }
}

/// Formats a ratio with two decimals.
fn ratio(part: u64, total: u64) -> String {
    let parts = u128::from(part) * 100 / u128::from(total.max(1));
    format!("{}.{:02}", parts / 100, parts % 100)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary(counted: LineCounts, ended: LoopEnd) -> RunSummary {
        RunSummary {
            ended,
            dir: PathBuf::from("dir"),
            out: None,
            ended_here: counted.over(),
            counted,
            spent: Duration::from_secs(4),
            bounds: None,
            bottlenecks: BTreeSet::new(),
            unfinished: UnfinishedCounts::default(),
            waits: Vec::new(),
        }
    }

    // One call was sent and throttled, and Ctrl-C came before it could go again.
    #[test]
    fn attempts_and_throttles_of_unfinished_jobs_count() {
        let mut summary = summary(LineCounts::default(), LoopEnd::Interrupted);
        summary.unfinished = UnfinishedCounts {
            attempts: 1,
            throttles: 1,
        };
        summary.waits = vec!["shop: the API is in Sleep, for another 9 min 58 s".to_owned()];
        let text = summary.to_text();
        assert!(text.contains("0 jobs over: 0 done; 1 attempts, 1 throttled"), "{text}");
        assert!(text.contains("for another 9 min 58 s"), "{text}");
        assert_eq!(
            (&summary.to_json()["attempts"], &summary.to_json()["throttles"]),
            (&json!(1), &json!(1))
        );
    }

    #[test]
    fn failures_are_listed_by_reason() {
        let mut counted = LineCounts::default();
        (0..8).for_each(|_| counted.failures.add("500"));
        counted.failures.add("timeout");
        let summary = summary(counted, LoopEnd::Finished);
        assert!(summary.to_text().contains("not done: 8 × 500, 1 × timeout"));
        assert_eq!(summary.to_json()["failures"][0], json!({ "reason": "500", "jobs": 8 }));
    }

    #[test]
    fn the_exit_code_shows_failures() {
        let done = LineCounts {
            done: 3,
            ..LineCounts::default()
        };
        let failed = LineCounts {
            failed: 1,
            throttles: 2,
            ..done.clone()
        };
        assert_eq!(summary(done, LoopEnd::Finished).exit(), Exit::Done);
        assert_eq!(summary(failed.clone(), LoopEnd::Interrupted).exit(), Exit::Interrupted);
        let summary = summary(failed, LoopEnd::Finished);
        assert_eq!(summary.exit(), Exit::SomeFailed);
        assert!(
            summary
                .to_text()
                .contains("4 jobs: 3 done, 1 failed; 0 attempts, 2 throttled (0.50 a job)")
        );
    }
}
