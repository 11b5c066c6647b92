//! `outflow bulk submit`: a file of jobs, handed to a running program.
//!
//! All of it is read and checked before the first job is handed over: every line that is no job is told,
//! and what an API or a limit has against one is asked of the program that knows them, as is whether there
//! is room for all of it. Others may take that room meanwhile: then it stops at the first job that found
//! none, and the same command goes on from there. Jobs without a name get the one that a run of the same file
//! would give them, so that submitting a file twice submits it once.

mod batches;

use std::fmt::Write as _;
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use http::{Method, StatusCode};
use outflow::config::read_duration;
use outflow_bulk::Webhook;
use outflow_store::BatchPosition;
use serde_json::{Value, json};

use self::batches::{JobBatch, LineErrors, batches};
use super::AdminTarget;
use super::input::{InputFormat, JobInput};
use super::tables::part;
use super::watch::is_over;
use crate::admin_client::encoded;
use crate::command_line::InvalidLines;
use crate::exit::Exit;
use crate::terminal::{Terminal, answer, answer_json, count};

/// Hands a file of jobs to a running program; they are kept before this ends.
#[derive(Args)]
pub(crate) struct Submit {
    /// The file of jobs, or `-` for what is piped in.
    file: String,
    /// How jobs are written, if the file's ending does not say it.
    #[arg(long, value_name = "FORMAT")]
    format: Option<InputFormat>,
    /// The action that they belong to; otherwise one that is named after the file.
    #[arg(long, value_name = "NAME")]
    action: Option<String>,
    /// Leave the action open for more jobs.
    #[arg(long)]
    more: bool,
    /// How long the action may take before it fails and the rest of its jobs are cancelled; otherwise what
    /// `bulk.action_timeout` says.
    #[arg(long, value_name = "TIME", value_parser = some_time)]
    timeout: Option<Duration>,
    /// Whom to tell when it is over: an API of the program's configuration, and a path there.
    #[arg(long, value_name = "API/PATH", value_parser = hook)]
    webhook: Option<Webhook>,
    #[command(flatten)]
    asked: AdminTarget,
}

/// What became of the jobs so far.
#[derive(Default)]
struct AcceptedCounts {
    accepted: u64,
    duplicates: u64,
    rejected: u64,
    reason: Option<String>,
}

impl Submit {
    pub(crate) fn run(self, terminal: Terminal) -> anyhow::Result<Exit> {
        let input = JobInput::read(&self.file, self.format)?;
        let batches = batches(&input).map_err(|wrong| self.refusal(&LineErrors::new(wrong)))?;
        let wrong = self.check(&batches)?;
        if wrong.all > 0 {
            return Err(self.refusal(&wrong).into());
        }
        let own = || own_action(&input);
        let action = self.action.clone().unwrap_or_else(own);
        let taken = match self.queue_full(&action, &batches)? {
            Some(refused) => refused,
            None => self.submit(&action, &batches, terminal)?,
        };
        let known = taken.accepted > 0 || self.is_known(&action)?;
        self.print(known.then_some(&action), &taken)
    }

    /// Hands all of it over to an action that is what it is said to be. One that is over keeps what came of it
    /// unless a job is new, so it is not opened before that is known.
    fn submit(
        &self,
        action: &str,
        batches: &[JobBatch],
        terminal: Terminal,
    ) -> anyhow::Result<AcceptedCounts> {
        let rest = if self.more {
            BatchPosition::More
        } else {
            BatchPosition::Last
        };
        let said = self.timeout.is_some() || self.webhook.is_some();
        if !said {
            return self.hand_over(action, (batches, rest), terminal);
        }
        let place = action_path(action);
        let known = self.asked.admin.request(Method::GET, &place, None)?;
        if !known.is_ok_and(|known| is_over(&known)) {
            self.open(action)?;
            return self.hand_over(action, (batches, rest), terminal);
        }
        let taken = self.hand_over(action, (batches, BatchPosition::More), terminal)?;
        if taken.accepted > 0 {
            self.open(action)?;
            if rest == BatchPosition::Last && !taken.is_queue_full() {
                self.asked.post(&format!("{place}/close"), &json!({}))?;
            }
        }
        Ok(taken)
    }

    /// Whether there is such an action: one that nobody opened and that got no job is none.
    fn is_known(&self, action: &str) -> anyhow::Result<bool> {
        let admin = &self.asked.admin;
        match admin.request(Method::GET, &action_path(action), None)? {
            Ok(_) => Ok(true),
            Err(refused) if refused.status == StatusCode::NOT_FOUND => Ok(false),
            Err(refused) => Err(admin.to_error(&refused)),
        }
    }

    /// What is wrong; nothing was handed over by then.
    fn refusal(&self, wrong: &LineErrors) -> InvalidLines {
        let file = &self.file;
        let lines = wrong.told.iter();
        let lines = lines.map(|(line, why)| format!("{file}:{line}: {why}"));
        let lines: Vec<_> = lines.collect();
        let mut words = format!(
            "{} wrong, and nothing was submitted: mend what is told above",
            count(wrong.all, "line is", "lines are")
        );
        if lines.len() < wrong.all {
            // Writing to a string cannot fail.
            let _whole = write!(words, ", which is {} of them", lines.len());
        }
        InvalidLines { words, lines }
    }

    /// That nothing is handed over, if the queue has not room for all of it. An action that is open may have
    /// got a part of the file before, which needs no room again: how much, only the program finds out.
    fn queue_full(
        &self,
        action: &str,
        batches: &[JobBatch],
    ) -> anyhow::Result<Option<AcceptedCounts>> {
        let told = self.asked.get("/v1/bulk")?;
        let all: usize = batches.iter().map(JobBatch::len).sum();
        let all = u64::try_from(all).unwrap_or(u64::MAX);
        // A program of an earlier version does not say how much it holds.
        let most = part(&told, "queue_max").as_u64().unwrap_or(u64::MAX);
        let queued = part(part(&told, "jobs"), "queued").as_u64().unwrap_or(0);
        let room = most.saturating_sub(queued);
        if all <= room || self.is_open(action)? {
            return Ok(None);
        }
        let reason = format!(
            "{CAPACITY}, which has room for {room} of these {all}: submit them again when it has more, cut \
             the file into smaller ones, or raise `bulk.queue_max` ({most})"
        );
        Ok(Some(AcceptedCounts {
            rejected: all,
            reason: Some(reason),
            ..AcceptedCounts::default()
        }))
    }

    fn is_open(&self, action: &str) -> anyhow::Result<bool> {
        let known = self
            .asked
            .admin
            .request(Method::GET, &action_path(action), None)?;
        Ok(known.is_ok_and(|known| !is_over(&known)))
    }

    /// What the program has against the jobs.
    fn check(&self, batches: &[JobBatch]) -> anyhow::Result<LineErrors> {
        let mut wrong = LineErrors::default();
        for batch in batches {
            let checked = self.asked.admin.request(
                Method::POST,
                "/v1/bulk/jobs?check=true",
                Some(batch.body()),
            )?;
            if let Err(refused) = checked {
                let found = batch.lines_of(&refused.problem);
                if found.told.is_empty() {
                    return Err(self.asked.admin.to_error(&refused));
                }
                wrong.add(found);
            }
        }
        Ok(wrong)
    }

    /// Says what the action is to be, if it is not to be like all others.
    fn open(&self, action: &str) -> anyhow::Result<()> {
        let millis = self
            .timeout
            .map(|span| u64::try_from(span.as_millis()).unwrap_or(u64::MAX));
        let spec = json!({ "id": action, "timeout_ms": millis, "webhook": self.webhook });
        self.asked.post("/v1/bulk/actions", &spec)?;
        Ok(())
    }

    fn hand_over(
        &self,
        action: &str,
        (batches, rest): (&[JobBatch], BatchPosition),
        terminal: Terminal,
    ) -> anyhow::Result<AcceptedCounts> {
        let mut taken = AcceptedCounts::default();
        let all: usize = batches.iter().map(JobBatch::len).sum();
        let mut handed = 0;
        for (number, batch) in (1..).zip(batches) {
            let last = number == batches.len() && rest == BatchPosition::Last;
            let place = format!("/v1/bulk/jobs?action={}&last={last}", encoded(action));
            let admin = &self.asked.admin;
            let answered = admin.request(Method::POST, &place, Some(batch.body()));
            let answered =
                answered.and_then(|told| told.map_err(|refused| admin.to_error(&refused)));
            taken.add(&answered.map_err(|why| taken.so_far(action, all, why))?);
            handed += batch.len();
            if batches.len() > 1 {
                terminal.progress(&format!("{handed} of {all} jobs handed over"));
            }
            // What comes later may find room, and would close the action before these.
            if taken.is_queue_full() {
                let all = u64::try_from(all).unwrap_or(u64::MAX);
                taken.rejected = all.saturating_sub(taken.accepted + taken.duplicates);
                break;
            }
        }
        terminal.progress("");
        Ok(taken)
    }

    /// Says what became of it, with the action if there is one.
    fn print(&self, action: Option<&String>, taken: &AcceptedCounts) -> anyhow::Result<Exit> {
        if self.asked.json {
            answer_json(&json!({
                "action": action, "accepted": taken.accepted,
                "duplicates": taken.duplicates, "rejected": taken.rejected,
                "reason": taken.reason,
            }))?;
        } else {
            answer(&taken.text(action))?;
        }
        Ok(match &taken.reason {
            // What found no room now will later; an action that takes no more never does.
            Some(_) if taken.is_queue_full() => Exit::Blocked,
            Some(_) => Exit::Failed,
            None => Exit::Done,
        })
    }
}

impl AcceptedCounts {
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

    /// Whether some found no room in the queue.
    fn is_queue_full(&self) -> bool {
        let reason = self.reason.as_deref();
        reason.is_some_and(|reason| reason.starts_with(CAPACITY))
    }

    /// Why the rest was not taken, after what is known of those before.
    fn so_far(&self, action: &str, all: usize, why: anyhow::Error) -> anyhow::Error {
        let taken = self.accepted + self.duplicates;
        if taken == 0 {
            return why;
        }
        why.context(format!(
            "{taken} of {all} jobs were taken as action {action}, which stays open for the others: submit \
             the same file again when this is mended, and no job is taken twice"
        ))
    }

    fn text(&self, action: Option<&String>) -> String {
        let accepted = usize::try_from(self.accepted).unwrap_or(usize::MAX);
        let mut text = format!("{} taken", count(accepted, "job was", "jobs were"));
        // Writing to a string cannot fail.
        if let Some(action) = action {
            let _whole = write!(text, " as action {action}");
        }
        if self.duplicates > 0 {
            let _whole = write!(text, ", {} had been before", self.duplicates);
        }
        if self.rejected > 0 {
            let reason = self.reason.as_deref().unwrap_or("no reason was given");
            let rejected = usize::try_from(self.rejected).unwrap_or(usize::MAX);
            let _whole = write!(text, ", {} not: {reason}", count(rejected, "was", "were"));
        }
        let _whole = match action {
            Some(action) if self.is_queue_full() => writeln!(
                text,
                "\nthe action stays open for the rest: submit the same again when there is room, and it goes \
                 on where it stopped\nwatch them with `outflow bulk watch {action}`"
            ),
            Some(action) => writeln!(text, "\nwatch them with `outflow bulk watch {action}`"),
            None if self.is_queue_full() => writeln!(text),
            None => writeln!(text, ", and no action was opened: {NO_ACTION}"),
        };
        text
    }
}

fn action_path(action: &str) -> String {
    format!("/v1/bulk/actions/{}", encoded(action))
}

/// The name of an action that nobody named: the file's, as much of it as a name holds, and its mark.
fn own_action(input: &JobInput) -> String {
    let stem = input.stem.replace(
        |letter: char| letter.is_whitespace() || letter.is_control(),
        "-",
    );
    let most = LONGEST_NAME.saturating_sub(input.mark.len() + 1);
    let stem = stem
        .get(..stem.floor_char_boundary(most))
        .unwrap_or_default();
    format!("{stem}-{}", input.mark)
}

/// Reads a time in which something can be done.
fn some_time(text: &str) -> anyhow::Result<Duration> {
    let span = read_duration(text)?;
    let some = Some(span).filter(|span| *span >= Duration::from_millis(1));
    some.context("nothing is done in no time: say at least 1ms")
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

/// How the engine begins to say that there is no room.
const CAPACITY: &str = "queue at capacity";

/// What a name of an action may have, in bytes.
const LONGEST_NAME: usize = 128;

/// Where to look for jobs that were known before, under another action or none.
const NO_ACTION: &str = "`outflow bulk status` lists those that there are";
