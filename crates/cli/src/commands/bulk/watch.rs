//! `outflow bulk watch` and `results`: show the progress and the results of an action.

use std::time::Duration;

use anyhow::Context;
use clap::Args;
use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};

use super::tables::{self, has_work};
use crate::admin_client::{AdminTarget, path};
use crate::commands::json_fields::{list, part};
use crate::exit::Exit;
use crate::terminal::{Terminal, answer, answer_json, say};

/// Watch an action until its last job is over.
#[derive(Args)]
pub(crate) struct WatchCommand {
    /// Select this action.
    action: String,
    #[command(flatten)]
    target: AdminTarget,
}

/// Print the results of an action, one line of JSON for each job; with `--json` one document.
///
/// For an action that timed out or was cancelled, wait for its jobs in flight.
#[derive(Args)]
pub(crate) struct ResultsCommand {
    /// Select this action.
    action: String,
    /// Print results after this cursor, which the last line of an earlier output contains.
    #[arg(long, value_name = "CURSOR", default_value_t = 0)]
    after: u64,
    #[command(flatten)]
    target: AdminTarget,
}

impl WatchCommand {
    pub(crate) fn run(self, terminal: Terminal) -> anyhow::Result<Exit> {
        let path = path(["v1", "bulk", "actions", &self.action]);
        let interval = PollInterval::new()?;
        let (mut polls, mut before) = (0_u64, String::new());
        loop {
            let report = self.target.get(&path)?;
            if is_over(&report) && !has_work(&report) {
                terminal.progress("");
                self.target.print(&report, tables::action)?;
                return Ok(exit(&report));
            }
            let line = tables::line(&report);
            terminal.progress(&line);
            // Without a terminal, a line at intervals, and only after a change.
            if !terminal.is_watched && polls.is_multiple_of(POLLS_PER_LINE) && before != line {
                say!("{line}");
                before = line;
            }
            polls += 1;
            interval.wait();
        }
    }
}

impl ResultsCommand {
    pub(crate) fn run(self) -> anyhow::Result<Exit> {
        self.wait_until_complete()?;
        let path = path(["v1", "bulk", "actions", &self.action, "results"]);
        let (mut after, mut all) = (self.after, Vec::new());
        loop {
            let page = self.target.get(&format!("{path}?after={after}&most=1000"))?;
            let mut results = list(&page, "results").to_vec();
            if self.target.json {
                all.append(&mut results);
            }
            let lines: Vec<_> = results.iter().map(|result| format!("{result}\n")).collect();
            answer(&lines.concat())?;
            match part(&page, "next").as_u64() {
                Some(next) => after = next,
                None => break,
            }
        }
        if self.target.json {
            answer_json(&json!({ "action": self.action, "results": all }))?;
        }
        Ok(Exit::Done)
    }

    /// Waits for jobs in flight of an action that ended early; they still lack results.
    fn wait_until_complete(&self) -> anyhow::Result<()> {
        let path = path(["v1", "bulk", "actions", &self.action]);
        let interval = PollInterval::new()?;
        loop {
            let report = self.target.get(&path)?;
            if !is_over(&report) || !has_work(&report) {
                return Ok(());
            }
            interval.wait();
        }
    }
}

/// Time between two polls.
struct PollInterval(Runtime);

impl PollInterval {
    fn new() -> anyhow::Result<Self> {
        let runtime = Builder::new_current_thread().enable_time().build();
        runtime.map(Self).context("cannot start the runtime")
    }

    fn wait(&self) {
        self.0.block_on(async { tokio::time::sleep(POLL_PERIOD).await });
    }
}

pub(super) fn is_over(action: &Value) -> bool {
    let stage = part(action, "stage").as_str().unwrap_or_default();
    ["COMPLETED", "FAILED", "CANCELLED"].contains(&stage)
}

fn exit(action: &Value) -> Exit {
    let jobs = part(action, "jobs");
    if part(jobs, "done") == part(jobs, "total") {
        Exit::Done
    } else {
        Exit::SomeFailed
    }
}

/// Short enough for a user, and no load for the program.
const POLL_PERIOD: Duration = Duration::from_secs(1);

/// Polls between two lines of a log.
const POLLS_PER_LINE: u64 = 5;

#[cfg(test)]
mod tests {
    use super::*;

    // Timed out with one of three jobs in flight, then with none.
    #[test]
    fn an_action_is_watched_until_no_job_is_in_flight() {
        let early = json!({ "stage": "FAILED", "jobs": { "queued": 0, "in_flight": 1 } });
        assert!(is_over(&early) && has_work(&early));
        let late = json!({ "stage": "FAILED", "jobs": { "queued": 0, "in_flight": 0 } });
        assert!(is_over(&late) && !has_work(&late));
    }
}
