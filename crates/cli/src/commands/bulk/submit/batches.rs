//! The jobs of a file as they are handed over: in pieces that a program takes at once.
//!
//! A piece is bounded by its jobs and by its bytes, since a program reads no body that is larger than it
//! wants to have in memory. Each job keeps its line, by which it is told what is wrong with it.

use std::collections::HashMap;

use serde_json::Value;

use crate::commands::bulk::input::{InputJob, JobInput};
use crate::commands::bulk::tables::part;

/// A line, and what is wrong with it.
type Wrong = (u64, String);

/// Lines that are wrong.
#[derive(Debug, Default)]
pub(super) struct LineErrors {
    /// Those of which it is told what.
    pub(super) told: Vec<Wrong>,
    /// How many there are: a program does not tell all.
    pub(super) all: usize,
}

impl LineErrors {
    pub(super) fn new(told: Vec<Wrong>) -> Self {
        let all = told.len();
        Self { told, all }
    }

    pub(super) fn add(&mut self, more: Self) {
        self.told.extend(more.told);
        self.all += more.all;
    }
}

/// Jobs that are handed over together.
#[derive(Debug, Default)]
pub(super) struct JobBatch {
    lines: Vec<u64>,
    /// The jobs as JSON, with commas between them.
    text: String,
}

impl JobBatch {
    /// How many jobs.
    pub(super) const fn len(&self) -> usize {
        self.lines.len()
    }

    /// An array of them.
    pub(super) fn body(&self) -> String {
        format!("[{}]", self.text)
    }

    /// The lines that a program found to be wrong.
    pub(super) fn lines_of(&self, problem: &Value) -> LineErrors {
        let told = part(problem, "jobs").as_array().into_iter().flatten();
        let wrong = told.filter_map(|one| {
            let number = usize::try_from(part(one, "job").as_u64()?).ok()?;
            let line = self.lines.get(number.checked_sub(1)?)?;
            Some((*line, part(one, "detail").as_str()?.to_owned()))
        });
        let told: Vec<_> = wrong.collect();
        let all = part(problem, "wrong").as_u64();
        let all = all.and_then(|all| usize::try_from(all).ok());
        let all = all.unwrap_or_default().max(told.len());
        LineErrors { told, all }
    }

    fn has_room_for(&self, job: &str) -> bool {
        self.len() < MOST_JOBS && self.text.len() + job.len() < MOST_BYTES
    }

    fn add(&mut self, line: u64, job: &str) {
        if !self.lines.is_empty() {
            self.text.push(',');
        }
        self.lines.push(line);
        self.text.push_str(job);
    }
}

/// All jobs with their names, or the lines that are none.
pub(super) fn batches(input: &JobInput) -> Result<Vec<JobBatch>, Vec<Wrong>> {
    let (mut batches, mut wrong) = (vec![JobBatch::default()], Vec::new());
    for (line, read) in LineDocuments::from_input(input) {
        match read {
            Ok(job) => match batches.last_mut() {
                Some(last) if last.has_room_for(&job) || last.len() == 0 => last.add(line, &job),
                _ => {
                    let mut next = JobBatch::default();
                    next.add(line, &job);
                    batches.push(next);
                }
            },
            Err(why) => wrong.push((line, why)),
        }
    }
    if wrong.is_empty() && batches.iter().all(|batch| batch.len() == 0) {
        let why = "holds no job: `outflow bulk run --help` says how one is written";
        wrong.push((1, why.to_owned()));
    }
    if wrong.is_empty() {
        Ok(batches)
    } else {
        Err(wrong)
    }
}

/// Goes through the lines of a file.
struct LineDocuments<'a> {
    input: &'a JobInput,
    /// Names that were given, and by which line.
    given: HashMap<String, u64>,
}

impl<'a> LineDocuments<'a> {
    fn from_input(input: &'a JobInput) -> impl Iterator<Item = (u64, Result<String, String>)> {
        let mut documents = Self {
            input,
            given: HashMap::new(),
        };
        input.jobs().map(move |InputJob { line, job, .. }| {
            (line, job.and_then(|job| documents.named(line, job)))
        })
    }

    /// The job as a document under its name.
    fn named(&mut self, line: u64, job: outflow_bulk::JobLine) -> Result<String, String> {
        let given = job.id.clone();
        if let Some(first) = given.as_ref().and_then(|id| self.given.get(id)) {
            return Err(format!(
                "id: line {first} has the same: give each job its own"
            ));
        }
        let order = job.clone().order(self.input.name(line))?;
        self.given.extend(given.map(|id| (id, line)));
        let text = job.named(order.id).to_string();
        if text.len() > LARGEST {
            return Err("is larger than 15 MiB: nothing so large can be handed over".to_owned());
        }
        Ok(text)
    }
}

/// Small enough for one request, large enough for few of them.
const MOST_JOBS: usize = 1_000;

/// A program takes 16 MiB at once. Half of it leaves room for one job that is large.
const MOST_BYTES: usize = 8 * 1024 * 1024;

/// What one request can hold beside the brackets.
const LARGEST: usize = 15 * 1024 * 1024;
