//! Submission of jobs, as an array or one per line.

use axum::Json;
use axum::extract::State;
use http::StatusCode;
use outflow_bulk::{JobDestination, JobLine, JobSpec, JobSubmission, RunningEngine, SubmittedJob, views};
use outflow_store::BatchPosition;
use serde::Deserialize;
use serde_json::{Value, json};
use smol_str::SmolStr;

use super::parse_name;
use crate::AdminState;
use crate::json_body::JobLines;
use crate::problem::{AdminProblem, JsonResult};
use crate::queries::{QueryResult, parse_query};

/// Options of a submission.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SubmitQuery {
    /// Action of the jobs; it is opened if necessary.
    action: Option<SmolStr>,
    /// True if these are the last jobs of the action.
    #[serde(default)]
    last: bool,
    /// True to validate the jobs without submitting them.
    #[serde(default)]
    check: bool,
}

/// Submits jobs, or none if one of them is invalid. Jobs that the queue has no space for are rejected one by
/// one, and the action stays open for them. With `check`, only validates.
pub(crate) async fn submit(
    State(admin): AdminState,
    query: QueryResult<SubmitQuery>,
    JobLines(bytes): JobLines,
) -> JsonResult {
    let bulk = admin.bulk()?;
    let options = parse_query(query)?;
    let jobs = parse_jobs(bulk, &bytes)?;
    if options.check {
        return Ok(Json(json!({
            "accepted": jobs.len(), "duplicates": 0, "rejected": 0, "jobs": [],
        })));
    }
    let action = options.action.as_deref().map(parse_name).transpose()?;
    let action = action.map(|id| bulk.engine().settings().action(id));
    let rest = if options.last {
        BatchPosition::Last
    } else {
        BatchPosition::More
    };
    // Only the last batch shows how long the whole action takes.
    let warned = action.as_ref().map(|spec| spec.id.clone()).filter(|_| options.last);
    let submission = JobSubmission { action, rest, jobs };
    let submitted = bulk.engine().submit(submission).await?;
    let mut response = submit_response(&submitted);
    if let Some(action) = warned
        && let Some(fields) = response.as_object_mut()
    {
        let warning = bulk.engine().timeout_warning(&action).await?;
        fields.insert("warning".to_owned(), warning.into());
    }
    Ok(Json(response))
}

fn submit_response(submitted: &[SubmittedJob]) -> Value {
    let count = |is_counted: fn(&JobDestination) -> bool| {
        let destinations = submitted.iter().map(|job| &job.destination);
        destinations.filter(|to| is_counted(to)).count()
    };
    let duplicates = count(|to| matches!(to, JobDestination::Duplicate));
    let rejected = count(|to| matches!(to, JobDestination::Rejected { .. }));
    json!({
        "accepted": submitted.len() - duplicates - rejected,
        "duplicates": duplicates,
        "rejected": rejected,
        "jobs": submitted.iter().map(views::placed).collect::<Vec<_>>(),
    })
}

/// Parses all jobs of a body, or returns all errors.
fn parse_jobs(bulk: &RunningEngine, bytes: &[u8]) -> Result<Vec<JobSpec>, AdminProblem> {
    let (mut jobs, mut errors) = (Vec::new(), Vec::new());
    for (number, line) in parse_lines(bytes)? {
        let job = line.and_then(|line| line.into_spec(None)).and_then(|job| {
            let checked = bulk.engine().check(&job);
            checked.map(|()| job).map_err(|error| error.to_string())
        });
        match job {
            Ok(job) => jobs.push(job),
            Err(error) => errors.push(json!({ "job": number, "detail": error })),
        }
    }
    if let Some(first) = errors.first() {
        let detail = format!(
            "{} {} invalid, and none was submitted; job {}: {}",
            errors.len(),
            if errors.len() == 1 { "job is" } else { "jobs are" },
            first["job"],
            first["detail"].as_str().unwrap_or_default()
        );
        let count = errors.len();
        errors.truncate(MAX_REPORTED);
        let problem = AdminProblem::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid_jobs", detail);
        let problem = problem.with("wrong", count.into());
        return Err(problem.with("jobs", errors.into()));
    }
    Ok(jobs)
}

type NumberedLine = (usize, Result<JobLine, String>);

/// Parses the jobs of a body, each with its index in the array or its line number, from 1.
fn parse_lines(bytes: &[u8]) -> Result<Vec<NumberedLine>, AdminProblem> {
    // Some editors write a byte order mark.
    let bytes = bytes.strip_prefix("\u{feff}".as_bytes()).unwrap_or(bytes);
    let bytes = bytes.trim_ascii_start();
    if bytes.starts_with(b"[") {
        let array: Vec<Value> = serde_json::from_slice(bytes)
            .map_err(|error| AdminProblem::bad(format!("the array cannot be read: {error}")))?;
        let numbered = (1..).zip(array);
        return Ok(numbered
            .map(|(number, job)| (number, JobLine::from_value(job)))
            .collect());
    }
    let text = std::str::from_utf8(bytes).map_err(|_| AdminProblem::bad("the body is not UTF-8"))?;
    let numbered = (1..).zip(text.lines());
    let filled = numbered.filter(|(_, line)| !line.trim().is_empty());
    Ok(filled
        .map(|(number, line)| (number, JobLine::from_json(line)))
        .collect())
}

/// Enough errors to see the cause.
const MAX_REPORTED: usize = 100;
