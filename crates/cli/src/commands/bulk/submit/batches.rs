//! Batches of the jobs of a file, each small enough for one request.
//!
//! A batch is bounded by jobs and by bytes, since a program limits the size of a request. Each job keeps its
//! line, which errors name.

use std::collections::HashMap;

use serde_json::Value;

use crate::commands::bulk::input::{InputJob, JobInput};
use crate::commands::json_fields::part;

/// Line number and error.
type LineError = (u64, String);

/// Invalid lines.
#[derive(Debug, Default)]
pub(super) struct LineErrors {
    /// Lines with a reported error.
    pub(super) reported: Vec<LineError>,
    /// Number of invalid lines: a program does not report all of them.
    pub(super) total: usize,
}

impl LineErrors {
    pub(super) fn new(reported: Vec<LineError>) -> Self {
        let total = reported.len();
        Self { reported, total }
    }

    pub(super) fn add(&mut self, more: Self) {
        self.reported.extend(more.reported);
        self.total += more.total;
    }
}

/// Jobs of one request.
#[derive(Debug, Default)]
pub(super) struct JobBatch {
    lines: Vec<u64>,
    /// Jobs as JSON, separated by commas.
    text: String,
}

impl JobBatch {
    /// Returns the number of jobs.
    pub(super) const fn len(&self) -> usize {
        self.lines.len()
    }

    /// Returns the jobs as a JSON array.
    pub(super) fn body(&self) -> String {
        format!("[{}]", self.text)
    }

    /// Returns the lines that the program reports as invalid.
    pub(super) fn invalid_lines(&self, problem: &Value) -> LineErrors {
        let jobs = part(problem, "jobs").as_array().into_iter().flatten();
        let reported = jobs.filter_map(|one| {
            let number = usize::try_from(part(one, "job").as_u64()?).ok()?;
            let line = self.lines.get(number.checked_sub(1)?)?;
            Some((*line, part(one, "detail").as_str()?.to_owned()))
        });
        let reported: Vec<_> = reported.collect();
        let total = part(problem, "wrong").as_u64();
        let total = total.and_then(|total| usize::try_from(total).ok());
        let total = total.unwrap_or_default().max(reported.len());
        LineErrors { reported, total }
    }

    fn fits(&self, job: &str) -> bool {
        self.len() < MAX_JOBS && self.text.len() + job.len() < MAX_BYTES
    }

    fn add(&mut self, line: u64, job: &str) {
        if !self.lines.is_empty() {
            self.text.push(',');
        }
        self.lines.push(line);
        self.text.push_str(job);
    }
}

/// Groups all jobs of a file into batches, or returns all invalid lines.
pub(super) fn batches(input: &JobInput) -> Result<Vec<JobBatch>, Vec<LineError>> {
    let (mut batches, mut errors) = (vec![JobBatch::default()], Vec::new());
    for (line, read) in LineDocuments::from_input(input) {
        match read {
            Ok(job) => match batches.last_mut() {
                Some(last) if last.fits(&job) || last.len() == 0 => last.add(line, &job),
                _ => {
                    let mut next = JobBatch::default();
                    next.add(line, &job);
                    batches.push(next);
                }
            },
            Err(why) => errors.push((line, why)),
        }
    }
    if errors.is_empty() && batches.iter().all(|batch| batch.len() == 0) {
        let why = "has no job: see `outflow bulk run --help` for the format";
        errors.push((1, why.to_owned()));
    }
    if errors.is_empty() { Ok(batches) } else { Err(errors) }
}

/// Lines of a file as JSON documents.
struct LineDocuments<'a> {
    input: &'a JobInput,
    /// Line of each id.
    ids: HashMap<String, u64>,
}

impl<'a> LineDocuments<'a> {
    fn from_input(input: &'a JobInput) -> impl Iterator<Item = (u64, Result<String, String>)> {
        let mut documents = Self {
            input,
            ids: HashMap::new(),
        };
        input
            .jobs()
            .map(move |InputJob { line, job, .. }| (line, job.and_then(|job| documents.render(line, job))))
    }

    /// Renders a job as JSON with its id.
    fn render(&mut self, line: u64, job: outflow_bulk::JobLine) -> Result<String, String> {
        let own = job.id.clone();
        if let Some(first) = own.as_ref().and_then(|id| self.ids.get(id)) {
            return Err(format!("id: line {first} has the same id: give each job its own"));
        }
        let spec = job.clone().into_spec(self.input.line_id(line))?;
        self.ids.extend(own.map(|id| (id, line)));
        let text = job.into_document(spec.id).to_string();
        if text.len() > MAX_JOB {
            return Err("is larger than 15 MiB: make it smaller".to_owned());
        }
        Ok(text)
    }
}

/// Small enough for one request, large enough for few requests.
const MAX_JOBS: usize = 1_000;

/// A program accepts 16 MiB at once. Half of it leaves space for one large job.
const MAX_BYTES: usize = 8 * 1024 * 1024;

/// Largest job that fits into a request with the brackets.
const MAX_JOB: usize = 15 * 1024 * 1024;
