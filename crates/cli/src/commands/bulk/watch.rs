//! `outflow bulk watch` and `results`: how an action goes, and what came of it.

use std::time::Duration;

use anyhow::Context;
use clap::Args;
use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};

use super::tables::part;
use super::{AdminTarget, tables};
use crate::admin_client::path;
use crate::exit::Exit;
use crate::terminal::{Terminal, answer, answer_json, say};

/// Watches an action until it is over to its last job.
#[derive(Args)]
pub(crate) struct Watch {
    /// The action.
    action: String,
    #[command(flatten)]
    asked: AdminTarget,
}

/// Prints what came of the jobs of an action, a line of JSON each; with `--json` one document.
///
/// Of one that took too long or was cancelled it waits for what is still under way.
#[derive(Args)]
pub(crate) struct ResultsCommand {
    /// The action.
    action: String,
    /// Those after this place, as the last line of an earlier answer says it.
    #[arg(long, value_name = "PLACE", default_value_t = 0)]
    after: u64,
    #[command(flatten)]
    asked: AdminTarget,
}

impl Watch {
    pub(crate) fn run(self, terminal: Terminal) -> anyhow::Result<Exit> {
        let place = path([&"v1", &"bulk", &"actions", &self.action]);
        let glances = PollInterval::new()?;
        let (mut looks, mut before) = (0_u64, Value::Null);
        loop {
            let told = self.asked.get(&place)?;
            if is_over(&told) && !has_open(&told) {
                terminal.progress("");
                self.asked.print(&told, tables::action)?;
                return Ok(exit(&told));
            }
            let line = tables::line(&told);
            terminal.progress(&line);
            // Where nobody looks on, a line now and then, and only if something changed.
            if !terminal.is_watched()
                && looks.is_multiple_of(SELDOM)
                && before != *part(&told, "jobs")
            {
                say!("{line}");
                before = part(&told, "jobs").clone();
            }
            looks += 1;
            glances.wait();
        }
    }
}

impl ResultsCommand {
    pub(crate) fn run(self) -> anyhow::Result<Exit> {
        self.wait_for_the_rest()?;
        let place = path([&"v1", &"bulk", &"actions", &self.action, &"results"]);
        let (mut after, mut all) = (self.after, Vec::new());
        loop {
            let asked = format!("{place}?after={after}&most=1000");
            let page = self.asked.get(&asked)?;
            let mut results = tables::list(&page, "results").to_vec();
            if self.asked.json {
                all.append(&mut results);
            }
            let lines: Vec<_> = results.iter().map(|result| format!("{result}\n")).collect();
            answer(&lines.concat())?;
            match part(&page, "next").as_u64() {
                Some(next) => after = next,
                None => break,
            }
        }
        if self.asked.json {
            answer_json(&json!({ "action": self.action, "results": all }))?;
        }
        Ok(Exit::Done)
    }

    /// An action that ended early has no result of what is under way, and no other way to be complete.
    fn wait_for_the_rest(&self) -> anyhow::Result<()> {
        let place = path([&"v1", &"bulk", &"actions", &self.action]);
        let glances = PollInterval::new()?;
        loop {
            let told = self.asked.get(&place)?;
            if !is_over(&told) || !has_open(&told) {
                return Ok(());
            }
            glances.wait();
        }
    }
}

/// The time between two looks.
struct PollInterval(Runtime);

impl PollInterval {
    fn new() -> anyhow::Result<Self> {
        let runtime = Builder::new_current_thread().enable_time().build();
        runtime.map(Self).context("no runtime can be started")
    }

    fn wait(&self) {
        self.0.block_on(async { tokio::time::sleep(GLANCE).await });
    }
}

/// Whether jobs of it wait or are under way.
fn has_open(action: &Value) -> bool {
    let jobs = part(action, "jobs");
    let some = |what| part(jobs, what).as_u64().is_some_and(|many| many > 0);
    some("queued") || some("in_flight")
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

/// A person sees a second; a program at the other end does not notice it.
const GLANCE: Duration = Duration::from_secs(1);

/// So many looks between two lines of a log.
const SELDOM: u64 = 5;

#[cfg(test)]
mod tests {
    use super::*;

    // Timed out with one of three under way, and the same a moment later.
    #[test]
    fn an_action_is_watched_until_nothing_of_it_is_under_way() {
        let early = json!({ "stage": "FAILED", "jobs": { "queued": 0, "in_flight": 1 } });
        assert!(is_over(&early) && has_open(&early));
        let late = json!({ "stage": "FAILED", "jobs": { "queued": 0, "in_flight": 0 } });
        assert!(is_over(&late) && !has_open(&late));
    }
}
