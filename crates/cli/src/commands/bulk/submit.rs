//! `outflow bulk submit`: a file of jobs, handed to a running program.
//!
//! All of it is read before the first job is sent, and every line that is none is told; what an API or a
//! limit has against a job is told by the program that knows them. Jobs without a name get the one that a
//! run of the same file would give them, so that submitting a file twice submits it once.

use std::fmt::Write as _;

use std::time::Duration;

use clap::Args;
use outflow::config::read_duration;
use outflow_bulk::Webhook;
use serde_json::{Value, json};

use super::Asked;
use super::input::{Format, Input};
use super::tables::part;
use crate::admin_client::encoded;
use crate::exit::Exit;
use crate::terminal::{Terminal, answer, answer_json, say};

/// Hands a file of jobs to a running program; they are kept before this ends.
#[derive(Args)]
pub(crate) struct Submit {
    /// The file of jobs, or `-` for what is piped in.
    file: String,
    /// How jobs are written, if the file's ending does not say it.
    #[arg(long, value_name = "FORMAT")]
    format: Option<Format>,
    /// The action that they belong to; otherwise one that is named after the file.
    #[arg(long, value_name = "NAME")]
    action: Option<String>,
    /// Leave the action open for more jobs.
    #[arg(long)]
    more: bool,
    /// How long the action may take before it fails and the rest of its jobs are cancelled; otherwise what
    /// `bulk.action_timeout` says.
    #[arg(long, value_name = "TIME", value_parser = read_duration)]
    timeout: Option<Duration>,
    /// Whom to tell when it is over: an API of the program's configuration, and a path there.
    #[arg(long, value_name = "API/PATH", value_parser = hook)]
    webhook: Option<Webhook>,
    #[command(flatten)]
    asked: Asked,
}

/// What became of the jobs so far.
#[derive(Default)]
struct Taken {
    accepted: u64,
    duplicates: u64,
    rejected: u64,
    reason: Option<String>,
}

impl Submit {
    pub(crate) fn run(self, terminal: Terminal) -> anyhow::Result<Exit> {
        let input = Input::read(&self.file, self.format)?;
        let jobs = match documents(&input) {
            Ok(jobs) => jobs,
            Err(wrong) => {
                let (file, alarm) = (&self.file, terminal.alarm("error:"));
                for (line, why) in &wrong {
                    say!("{file}:{line}: {why}");
                }
                say!(
                    "{alarm} {} lines are wrong, and nothing was submitted: mend them",
                    wrong.len()
                );
                return Ok(Exit::Usage);
            }
        };
        let own = || {
            format!(
                "{}-{}",
                input.stem.replace(char::is_whitespace, "-"),
                input.mark
            )
        };
        let action = self.action.clone().unwrap_or_else(own);
        self.open(&action)?;
        let taken = self.hand_over(&action, &jobs, terminal)?;
        self.tell(&action, &taken)
    }

    /// Says what the action is to be, if it is not to be like all others.
    fn open(&self, action: &str) -> anyhow::Result<()> {
        if self.timeout.is_none() && self.webhook.is_none() {
            return Ok(());
        }
        let millis = self
            .timeout
            .map(|span| u64::try_from(span.as_millis()).unwrap_or(u64::MAX));
        let spec = json!({ "id": action, "timeout_ms": millis, "webhook": self.webhook });
        self.asked.post("/v1/bulk/actions", &spec)?;
        Ok(())
    }

    fn hand_over(&self, action: &str, jobs: &[Value], terminal: Terminal) -> anyhow::Result<Taken> {
        let mut taken = Taken::default();
        let batches: Vec<_> = jobs.chunks(BATCH).collect();
        for (number, batch) in (1..).zip(&batches) {
            let last = number == batches.len() && !self.more;
            let place = format!("/v1/bulk/jobs?action={}&last={last}", encoded(action));
            taken.add(&self.asked.post(&place, &Value::from(batch.to_vec()))?);
            if batches.len() > 1 {
                let handed = (number * BATCH).min(jobs.len());
                terminal.progress(&format!("{handed} of {} jobs handed over", jobs.len()));
            }
        }
        terminal.progress("");
        Ok(taken)
    }

    fn tell(&self, action: &str, taken: &Taken) -> anyhow::Result<Exit> {
        if self.asked.json {
            answer_json(&json!({
                "action": action, "accepted": taken.accepted,
                "duplicates": taken.duplicates, "rejected": taken.rejected,
                "reason": taken.reason,
            }))?;
        } else {
            answer(&taken.text(action))?;
        }
        // What found no room now will later.
        Ok(if taken.rejected > 0 {
            Exit::Blocked
        } else {
            Exit::Done
        })
    }
}

impl Taken {
    fn add(&mut self, told: &Value) {
        let count = |key: &str| part(told, key).as_u64().unwrap_or(0);
        self.accepted += count("accepted");
        self.duplicates += count("duplicates");
        self.rejected += count("rejected");
        let mut reasons = part(told, "jobs").as_array().into_iter().flatten();
        let rejected = reasons.find(|job| part(job, "destination") == "rejected");
        let reason = rejected.and_then(|job| part(job, "reason").as_str());
        self.reason = self.reason.take().or(reason.map(str::to_owned));
    }

    fn text(&self, action: &str) -> String {
        let mut text = format!("{} jobs were taken as action {action}", self.accepted);
        // Writing to a string cannot fail.
        if self.duplicates > 0 {
            let _whole = write!(text, ", {} had been before", self.duplicates);
        }
        if self.rejected > 0 {
            let reason = self.reason.as_deref().unwrap_or("no reason was given");
            let _whole = write!(text, ", {} were not: {reason}", self.rejected);
        }
        let _whole = writeln!(text, "\nwatch them with `outflow bulk watch {action}`");
        text
    }
}

/// Reads `API/PATH`.
fn hook(text: &str) -> Result<Webhook, String> {
    let (api, path) = text
        .split_once('/')
        .filter(|(api, _)| !api.is_empty())
        .ok_or("write the name of an API and a path, like `ours/hooks/bulk`")?;
    Ok(Webhook {
        api: api.to_owned(),
        path: format!("/{path}"),
    })
}

/// All jobs as documents with their names, or the lines that are none.
fn documents(input: &Input) -> Result<Vec<Value>, Vec<(u64, String)>> {
    let (mut jobs, mut wrong) = (Vec::new(), Vec::new());
    for (line, read) in input.jobs() {
        let named = read.and_then(|job| {
            let checked = job.clone().order(input.name(line));
            checked.map(|order| job.named(order.id))
        });
        match named {
            Ok(job) => jobs.push(job),
            Err(why) => wrong.push((line, why)),
        }
    }
    if wrong.is_empty() && jobs.is_empty() {
        wrong.push((
            1,
            "holds no job: `outflow bulk run --help` says how one is written".to_owned(),
        ));
    }
    if wrong.is_empty() {
        Ok(jobs)
    } else {
        Err(wrong)
    }
}

/// Small enough for one request, large enough for few of them.
const BATCH: usize = 1_000;
