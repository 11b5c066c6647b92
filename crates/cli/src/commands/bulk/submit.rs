//! `outflow bulk submit`: submits a file of jobs to a running program.
//!
//! The command checks all lines before it submits the first job: it parses them itself, and asks the program
//! for the checks of APIs, limits and queue space. Other clients may fill the queue meanwhile. Then it stops
//! at the first rejected job, and a repetition goes on from there. Jobs without an id get the id that a run
//! of the file would give them, so a file that is submitted twice runs once.

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
use super::input::{InputFormat, JobInput};
use super::tables::remaining;
use super::watch::is_over;
use crate::admin_client::{AdminTarget, encoded};
use crate::command_line::InvalidLines;
use crate::commands::json_fields::part;
use crate::exit::Exit;
use crate::terminal::{Terminal, answer, answer_json, count, millis, say};

/// Submit a file of jobs to a running program, which stores them durably.
#[derive(Args)]
pub(crate) struct SubmitCommand {
    /// Read jobs from this file, or from the standard input for `-`.
    file: String,
    /// Read this format; by default the file's extension decides.
    #[arg(long, value_name = "FORMAT")]
    format: Option<InputFormat>,
    /// Add the jobs to this action; by default one named after the file.
    #[arg(long, value_name = "NAME")]
    action: Option<String>,
    /// Keep the action open for more jobs.
    #[arg(long)]
    keep_open: bool,
    /// Fail the action if no job of it ends for this time, and cancel the rest; by default `bulk.action_timeout`.
    #[arg(long, value_name = "TIME", value_parser = read_timeout)]
    timeout: Option<Duration>,
    /// Notify this path of a configured API when the action is over.
    #[arg(long, value_name = "API/PATH", value_parser = read_webhook)]
    webhook: Option<Webhook>,
    #[command(flatten)]
    target: AdminTarget,
}

/// Results of the submission so far.
#[derive(Default)]
struct AcceptedCounts {
    accepted: u64,
    duplicates: u64,
    rejected: u64,
    reason: Option<String>,
    warning: Option<String>,
}

impl SubmitCommand {
    pub(crate) fn run(self, terminal: Terminal) -> anyhow::Result<Exit> {
        let input = JobInput::read(&self.file, self.format)?;
        let batches = batches(&input).map_err(|errors| self.invalid(&LineErrors::new(errors)))?;
        let errors = self.check(&batches)?;
        if errors.total > 0 {
            return Err(self.invalid(&errors).into());
        }
        let own = || default_action(&input);
        let action = self.action.clone().unwrap_or_else(own);
        let counts = match self.queue_full(&action, &batches)? {
            Some(refused) => refused,
            None => self.submit(&action, &batches, terminal)?,
        };
        let report = self.report(&action)?;
        self.print(report.as_ref(), &counts)
    }

    /// Submits all batches to an action with the requested settings. A finished action keeps its results
    /// unless a job is new, so it is opened only after that is known.
    fn submit(&self, action: &str, batches: &[JobBatch], terminal: Terminal) -> anyhow::Result<AcceptedCounts> {
        let rest = if self.keep_open {
            BatchPosition::More
        } else {
            BatchPosition::Last
        };
        let has_settings = self.timeout.is_some() || self.webhook.is_some();
        if !has_settings {
            return self.submit_batches(action, batches, rest, terminal);
        }
        let path = action_path(action);
        let known = self.target.admin.request(Method::GET, &path, None)?;
        if !known.is_ok_and(|known| is_over(&known)) {
            self.open(action)?;
            return self.submit_batches(action, batches, rest, terminal);
        }
        let counts = self.submit_batches(action, batches, BatchPosition::More, terminal)?;
        if counts.accepted > 0 {
            self.open(action)?;
            if rest == BatchPosition::Last && !counts.is_queue_full() {
                self.target.post(&format!("{path}/close"), &json!({}))?;
            }
        }
        Ok(counts)
    }

    /// Returns the report of an action; nothing if it was not opened and got no job.
    fn report(&self, action: &str) -> anyhow::Result<Option<Value>> {
        let admin = &self.target.admin;
        match admin.request(Method::GET, &action_path(action), None)? {
            Ok(report) => Ok(Some(report)),
            Err(refused) if refused.status == StatusCode::NOT_FOUND => Ok(None),
            Err(refused) => Err(admin.to_error(&refused)),
        }
    }

    /// Returns the error for invalid lines, before any job is submitted.
    fn invalid(&self, errors: &LineErrors) -> InvalidLines {
        let file = &self.file;
        let lines = errors.reported.iter();
        let lines = lines.map(|(line, why)| format!("{file}:{line}: {why}"));
        let lines: Vec<_> = lines.collect();
        let mut message = format!(
            "{} invalid, and nothing was submitted: fix the errors above",
            count(errors.total, "line is", "lines are")
        );
        if lines.len() < errors.total {
            // Writing to a string cannot fail.
            let _infallible = write!(message, ", which are {} of them", lines.len());
        }
        InvalidLines { message, lines }
    }

    /// Returns a rejection of all jobs if the queue has no space for them. An open action may hold some of
    /// them already, which need no further space; only the program knows their number.
    fn queue_full(&self, action: &str, batches: &[JobBatch]) -> anyhow::Result<Option<AcceptedCounts>> {
        let report = self.target.get("/v1/bulk")?;
        let all = count_jobs(batches);
        // An older program does not report its capacity.
        let capacity = part(&report, "queue_max").as_u64().unwrap_or(u64::MAX);
        let queued = part(part(&report, "jobs"), "queued").as_u64().unwrap_or(0);
        let space = capacity.saturating_sub(queued);
        if all <= space || self.is_open(action)? {
            return Ok(None);
        }
        let reason = format!(
            "{CAPACITY}, with space for {space} of {all} jobs: submit them again later, split the \
             file, or raise `bulk.queue_max` ({capacity})"
        );
        Ok(Some(AcceptedCounts {
            rejected: all,
            reason: Some(reason),
            ..AcceptedCounts::default()
        }))
    }

    fn is_open(&self, action: &str) -> anyhow::Result<bool> {
        let known = self.target.admin.request(Method::GET, &action_path(action), None)?;
        Ok(known.is_ok_and(|known| !is_over(&known)))
    }

    /// Returns the lines that the program reports as invalid.
    fn check(&self, batches: &[JobBatch]) -> anyhow::Result<LineErrors> {
        let mut errors = LineErrors::default();
        for batch in batches {
            let checked = self
                .target
                .admin
                .request(Method::POST, "/v1/bulk/jobs?check=true", Some(batch.body()))?;
            if let Err(refused) = checked {
                let found = batch.invalid_lines(&refused.problem);
                if found.reported.is_empty() {
                    return Err(self.target.admin.to_error(&refused));
                }
                errors.add(found);
            }
        }
        Ok(errors)
    }

    /// Opens the action with its timeout and webhook.
    fn open(&self, action: &str) -> anyhow::Result<()> {
        let timeout = self.timeout.map(millis);
        let spec = json!({ "id": action, "timeout_ms": timeout, "webhook": self.webhook });
        self.target.post("/v1/bulk/actions", &spec)?;
        Ok(())
    }

    fn submit_batches(
        &self,
        action: &str,
        batches: &[JobBatch],
        rest: BatchPosition,
        terminal: Terminal,
    ) -> anyhow::Result<AcceptedCounts> {
        let mut counts = AcceptedCounts::default();
        let all = count_jobs(batches);
        let mut submitted = 0;
        for (number, batch) in (1..).zip(batches) {
            let last = number == batches.len() && rest == BatchPosition::Last;
            let path = format!("/v1/bulk/jobs?action={}&last={last}", encoded(action));
            let admin = &self.target.admin;
            let result = admin.request(Method::POST, &path, Some(batch.body()));
            let result = result.and_then(|result| result.map_err(|refused| admin.to_error(&refused)));
            counts.add(&result.map_err(|why| counts.explain_partial(action, all, why))?);
            submitted += batch.len();
            if batches.len() > 1 {
                terminal.progress(&format!("{submitted} of {all} jobs submitted"));
            }
            // A later batch may find space, and would close the action before these jobs.
            if counts.is_queue_full() {
                counts.rejected = all.saturating_sub(counts.accepted + counts.duplicates);
                break;
            }
        }
        terminal.progress("");
        Ok(counts)
    }

    /// Prints the counts, with the action and its remaining time if it exists.
    fn print(&self, action: Option<&Value>, counts: &AcceptedCounts) -> anyhow::Result<Exit> {
        if self.target.json {
            answer_json(&json!({
                "action": action.map(|action| part(action, "id")), "accepted": counts.accepted,
                "duplicates": counts.duplicates, "rejected": counts.rejected,
                "reason": counts.reason, "warning": counts.warning,
                "eta_ms": action.map(|action| part(action, "eta_ms")),
            }))?;
        } else {
            answer(&counts.to_text(action))?;
        }
        if let Some(warning) = &counts.warning {
            say!("warning: {warning}");
        }
        Ok(match &counts.reason {
            // A full queue has space later; a closed action never accepts jobs again.
            Some(_) if counts.is_queue_full() => Exit::Blocked,
            Some(_) => Exit::Failed,
            None => Exit::Done,
        })
    }
}

impl AcceptedCounts {
    fn add(&mut self, result: &Value) {
        let count = |key: &str| part(result, key).as_u64().unwrap_or(0);
        self.accepted += count("accepted");
        self.duplicates += count("duplicates");
        self.rejected += count("rejected");
        let mut reasons = part(result, "jobs").as_array().into_iter().flatten();
        let rejected = reasons.find(|job| part(job, "destination") == "rejected");
        let reason = rejected.and_then(|job| part(job, "reason").as_str());
        self.reason = self.reason.take().or(reason.map(str::to_owned));
        let warning = part(result, "warning").as_str();
        self.warning = self.warning.take().or(warning.map(str::to_owned));
    }

    /// Returns true if the queue was full for some jobs.
    fn is_queue_full(&self) -> bool {
        let reason = self.reason.as_deref();
        reason.is_some_and(|reason| reason.starts_with(CAPACITY))
    }

    /// Adds the number of accepted jobs to an error.
    fn explain_partial(&self, action: &str, all: u64, why: anyhow::Error) -> anyhow::Error {
        let taken = self.accepted + self.duplicates;
        if taken == 0 {
            return why;
        }
        why.context(format!(
            "{taken} of {all} jobs were accepted as action {action}, which stays open for the others: fix \
             the error and submit the file again; no job runs twice"
        ))
    }

    fn to_text(&self, report: Option<&Value>) -> String {
        let action = report.and_then(|report| part(report, "id").as_str());
        let accepted = usize::try_from(self.accepted).unwrap_or(usize::MAX);
        let mut text = format!("{} accepted", count(accepted, "job was", "jobs were"));
        // Writing to a string cannot fail.
        if let Some(action) = action {
            let _infallible = write!(text, " as action {action}");
        }
        if self.duplicates > 0 {
            let _infallible = write!(text, ", {} submitted before", self.duplicates);
        }
        if self.rejected > 0 {
            let reason = self.reason.as_deref().unwrap_or("no reason was given");
            let rejected = usize::try_from(self.rejected).unwrap_or(usize::MAX);
            let _infallible = write!(text, ", {} rejected: {reason}", count(rejected, "was", "were"));
        }
        if let Some(report) = report.filter(|report| part(report, "eta_ms").is_u64()) {
            let _infallible = write!(text, ", about {} left", remaining(report));
        }
        let _infallible = match action {
            Some(action) if self.is_queue_full() => writeln!(
                text,
                "\nthe action stays open for the rest: submit the file again when the queue has space, and \
                 it goes on where it stopped\nwatch them with `outflow bulk watch {action}`"
            ),
            Some(action) => writeln!(text, "\nwatch them with `outflow bulk watch {action}`"),
            None if self.is_queue_full() => writeln!(text),
            None => writeln!(text, ", and no action was opened: {NO_ACTION}"),
        };
        text
    }
}

fn count_jobs(batches: &[JobBatch]) -> u64 {
    let all: usize = batches.iter().map(JobBatch::len).sum();
    u64::try_from(all).unwrap_or(u64::MAX)
}

fn action_path(action: &str) -> String {
    format!("/v1/bulk/actions/{}", encoded(action))
}

/// Returns the default name of an action: the file name, shortened to fit, and the hash of the file.
fn default_action(input: &JobInput) -> String {
    let stem = input
        .stem
        .replace(|letter: char| letter.is_whitespace() || letter.is_control(), "-");
    let limit = MAX_NAME.saturating_sub(input.mark.len() + 1);
    let stem = stem.get(..stem.floor_char_boundary(limit)).unwrap_or_default();
    format!("{stem}-{}", input.mark)
}

/// Parses a timeout of at least a millisecond.
fn read_timeout(text: &str) -> anyhow::Result<Duration> {
    let span = read_duration(text)?;
    let timeout = Some(span).filter(|span| *span >= Duration::from_millis(1));
    timeout.context("the timeout is too short: use at least 1ms")
}

/// Parses `API/PATH`.
fn read_webhook(text: &str) -> Result<Webhook, String> {
    let (api, path) = text
        .split_once('/')
        .filter(|(api, _)| !api.is_empty())
        .ok_or("write the name of an API and a path, like `ours/hooks/bulk`")?;
    Ok(Webhook {
        api: api.to_owned(),
        path: format!("/{path}"),
    })
}

/// Start of the engine's message for a full queue.
const CAPACITY: &str = "queue at capacity";

/// Longest name of an action, in bytes.
const MAX_NAME: usize = 128;

/// Advice for jobs that were known before, under another action or none.
const NO_ACTION: &str = "`outflow bulk status` lists all actions";
