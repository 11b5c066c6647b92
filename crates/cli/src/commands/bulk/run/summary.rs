//! How a run went, for people and for programs.

use std::path::PathBuf;
use std::time::Duration;

use outflow_bulk::TenantBounds;
use serde_json::{Value, json};

use super::line_results::LineCounts;
use super::run_loop::LoopEnd;
use crate::exit::Exit;
use crate::terminal::spoken;

/// How a run went.
pub(super) struct RunSummary {
    pub(super) ended: LoopEnd,
    pub(super) dir: PathBuf,
    pub(super) out: Option<PathBuf>,
    pub(super) counted: LineCounts,
    /// How many were over in this sitting, and how long it took.
    pub(super) here: u64,
    pub(super) spent: Duration,
    /// What was foreseen of it.
    pub(super) forecast: Option<TenantBounds>,
}

impl RunSummary {
    /// As the program ends.
    pub(super) const fn exit(&self) -> Exit {
        match self.ended {
            LoopEnd::Interrupted => Exit::Interrupted,
            LoopEnd::Unserved(_) => Exit::SomeFailed,
            LoopEnd::Finished if self.counted.over() > self.counted.done => Exit::SomeFailed,
            LoopEnd::Finished => Exit::Done,
        }
    }

    /// As people read it.
    pub(super) fn text(&self) -> String {
        let counted = &self.counted;
        let mut parts = vec![format!("{} done", counted.done)];
        for (count, word) in [
            (counted.failed, "failed"),
            (counted.expired, "too late to begin"),
            (counted.cancelled, "cancelled"),
        ] {
            if count > 0 {
                parts.push(format!("{count} {word}"));
            }
        }
        let mut lines = vec![format!(
            "{} jobs{}: {}; {} attempts, {} refused ({} a job)",
            counted.over(),
            // What those that wait have met is the store's to tell, and not counted here.
            if self.ended == LoopEnd::Interrupted {
                " over"
            } else {
                ""
            },
            parts.join(", "),
            counted.attempts,
            counted.throttles,
            hundredths(counted.throttles, counted.over()),
        )];
        lines.extend(self.compared());
        lines.extend(self.advice());
        lines.join("\n")
    }

    /// Ideal and actual, if there was anything to do.
    fn compared(&self) -> Option<String> {
        let forecast = self.forecast.as_ref().filter(|_| self.here > 0)?;
        let (ideal, actual) = (spoken(forecast.ideal), spoken(self.spent));
        Some(match self.ended {
            LoopEnd::Finished | LoopEnd::Unserved(_) => {
                format!("ideal {ideal} (by {}), actual {actual}", forecast.because)
            }
            LoopEnd::Interrupted => {
                format!("{} in {actual}; ideally all of it takes {ideal}", self.here)
            }
        })
    }

    fn advice(&self) -> Option<String> {
        let dir = self.dir.display();
        match &self.ended {
            LoopEnd::Interrupted => Some(format!(
                "jobs are kept in {dir}: run the same again to go on"
            )),
            LoopEnd::Unserved(apis) => Some(format!(
                "the rest waits in {dir} for `{}`, which the configuration does not have any more: add \
                 it, and run the same again to go on",
                apis.join("` and `")
            )),
            LoopEnd::Finished if self.counted.failed > 0 => {
                let before = match self.here {
                    0 => "all of it was over before, and nothing was sent: ",
                    _ => "",
                };
                Some(format!(
                    "{before}run the same again with `--retry-failed` to try anew what failed"
                ))
            }
            LoopEnd::Finished if self.here == 0 => Some(format!(
                "all of it was over before, and nothing was sent: remove {dir} to run the file anew"
            )),
            LoopEnd::Finished => None,
        }
    }

    /// As a document.
    pub(super) fn json(&self) -> Value {
        let counted = &self.counted;
        let forecast = self.forecast.as_ref();
        let missing = match &self.ended {
            LoopEnd::Unserved(apis) => apis.as_slice(),
            LoopEnd::Finished | LoopEnd::Interrupted => &[],
        };
        let tenants = counted.tenants.iter().map(|(name, (over, not_done))| {
            json!({ "tenant": name.as_str(), "over": over, "done": over - not_done })
        });
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
            "attempts": counted.attempts,
            "throttles": counted.throttles,
            "in_this_sitting": self.here,
            "ideal_ms": forecast.map(|forecast| millis(forecast.ideal)),
            "because": forecast.map(|forecast| forecast.because.as_str()),
            "actual_ms": millis(self.spent),
            "tenants": tenants.collect::<Vec<_>>(),
        })
    }
}

/// A part with two digits behind the point.
fn hundredths(part: u64, whole: u64) -> String {
    let parts = u128::from(part) * 100 / u128::from(whole.max(1));
    format!("{}.{:02}", parts / 100, parts % 100)
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary(counted: LineCounts, ended: LoopEnd) -> RunSummary {
        RunSummary {
            ended,
            dir: PathBuf::from("dir"),
            out: None,
            here: counted.over(),
            counted,
            spent: Duration::from_secs(4),
            forecast: None,
        }
    }

    #[test]
    fn the_exit_code_says_whether_all_were_done() {
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
        assert_eq!(
            summary(failed.clone(), LoopEnd::Interrupted).exit(),
            Exit::Interrupted
        );
        let summary = summary(failed, LoopEnd::Finished);
        assert_eq!(summary.exit(), Exit::SomeFailed);
        assert!(
            summary
                .text()
                .contains("4 jobs: 3 done, 1 failed; 0 attempts, 2 refused (0.50 a job)")
        );
    }
}
