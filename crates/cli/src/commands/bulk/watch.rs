//! `outflow bulk watch` and `results`: how an action goes, and what came of it.

use std::collections::HashMap;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use serde_json::{Value, json};

use super::tables::part;
use super::{Asked, tables};
use crate::admin_client::path;
use crate::exit::Exit;
use crate::terminal::{Terminal, answer, answer_json, say};

/// Watches an action until it is over.
#[derive(Args)]
pub(crate) struct Watch {
    /// The action.
    action: String,
    #[command(flatten)]
    asked: Asked,
}

/// Prints what came of the jobs of an action, a line of JSON each; with `--json` one document.
#[derive(Args)]
pub(crate) struct Results {
    /// The action.
    action: String,
    /// Those after this place, as the last line of an earlier answer says it.
    #[arg(long, value_name = "PLACE", default_value_t = 0)]
    after: u64,
    #[command(flatten)]
    asked: Asked,
}

impl Watch {
    pub(crate) fn run(self, terminal: Terminal) -> anyhow::Result<Exit> {
        let place = path([&"v1", &"bulk", &"actions", &self.action]);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build();
        let runtime = runtime.context("no runtime can be started")?;
        let (mut looks, mut before) = (0_u64, Value::Null);
        loop {
            let told = self.asked.get(&place)?;
            if is_over(&told) {
                terminal.progress("");
                self.asked.tell(&told, tables::action)?;
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
            runtime.block_on(async { tokio::time::sleep(GLANCE).await });
        }
    }
}

impl Results {
    pub(crate) fn run(self) -> anyhow::Result<Exit> {
        let place = path([&"v1", &"bulk", &"actions", &self.action, &"results"]);
        let (mut after, mut letters) = (self.after, Letters::default());
        let mut all = Vec::new();
        loop {
            let asked = format!("{place}?after={after}&most=1000");
            let page = self.asked.get(&asked)?;
            let mut results = tables::list(&page, "results").to_vec();
            letters.explain(&mut results, &self)?;
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
}

/// Why jobs failed, which is written on their dead letters.
#[derive(Default)]
struct Letters {
    /// The place of the last that was read.
    after: u64,
    words: HashMap<String, String>,
}

impl Letters {
    /// Adds to the results that failed why they did, as far as that is still known.
    fn explain(&mut self, results: &mut [Value], of: &Results) -> anyhow::Result<()> {
        let failed = |result: &&mut Value| part(result, "ended") == "failed";
        let mut read = false;
        for result in results.iter_mut().filter(failed) {
            let id = part(result, "id").as_str().unwrap_or_default().to_owned();
            if !read && !self.words.contains_key(&id) {
                self.read_on(of)?;
                read = true;
            }
            if let (Some(words), Some(result)) = (self.words.remove(&id), result.as_object_mut()) {
                result.insert("error".to_owned(), words.into());
            }
        }
        Ok(())
    }

    fn read_on(&mut self, of: &Results) -> anyhow::Result<()> {
        loop {
            let place = format!("/v1/bulk/dead?after={}&most=1000", self.after);
            let page = of.asked.get(&place)?;
            let letters = tables::list(&page, "dead").iter();
            for letter in letters.filter(|letter| part(letter, "action") == of.action.as_str()) {
                let last = tables::list(letter, "history").last();
                let words = last.and_then(|mishap| part(mishap, "words").as_str());
                let id = part(letter, "id").as_str();
                let known = id.zip(words);
                self.words
                    .extend(known.map(|(id, words)| (id.to_owned(), words.to_owned())));
            }
            match part(&page, "next").as_u64() {
                Some(next) => self.after = next,
                None => return Ok(()),
            }
        }
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

/// A person sees a second; a program at the other end does not notice it.
const GLANCE: Duration = Duration::from_secs(1);

/// So many looks between two lines of a log.
const SELDOM: u64 = 5;
