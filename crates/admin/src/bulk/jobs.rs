//! Taking jobs: an array of them, or a line for each.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Query, State};
use http::StatusCode;
use outflow_bulk::{
    JobDestination, JobLine, JobSpec, JobSubmission, RunningEngine, SubmittedJob, views,
};
use outflow_store::BatchPosition;
use serde::Deserialize;
use serde_json::{Value, json};
use smol_str::SmolStr;

use super::{Asked, name};
use crate::Admin;
use crate::json_body::JobLines;
use crate::problem::AdminProblem;

/// What jobs belong to.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct BatchView {
    /// The action; it is opened if nobody has.
    action: Option<SmolStr>,
    /// Whether the action gets no more.
    #[serde(default)]
    last: bool,
    /// Whether they are only looked at.
    #[serde(default)]
    check: bool,
}

/// Takes jobs, unless one of them is wrong: then none. What finds no room in the queue is not taken, and told
/// as such of each, and the action stays open for it. Or says what it would have against them, and takes
/// nothing.
pub(crate) async fn submit(
    State(admin): State<Arc<Admin>>,
    query: Asked<BatchView>,
    JobLines(bytes): JobLines,
) -> Result<Json<Value>, AdminProblem> {
    let bulk = admin.bulk()?;
    let Query(together) = query.map_err(|why| AdminProblem::bad(why.body_text()))?;
    let orders = orders(bulk, &bytes)?;
    if together.check {
        return Ok(Json(json!({
            "accepted": orders.len(), "duplicates": 0, "rejected": 0, "jobs": [],
        })));
    }
    let action = together.action.as_deref().map(name).transpose()?;
    let action = action.map(|id| bulk.engine().settings().action(id));
    let rest = if together.last {
        BatchPosition::Last
    } else {
        BatchPosition::More
    };
    let submission = JobSubmission {
        action,
        rest,
        jobs: orders,
    };
    let placed = bulk.engine().submit(submission).await?;
    Ok(Json(answer(&placed)))
}

fn answer(placed: &[SubmittedJob]) -> Value {
    let count = |wanted: fn(&JobDestination) -> bool| {
        placed.iter().filter(|one| wanted(&one.destination)).count()
    };
    let duplicates = count(|to| matches!(to, JobDestination::Duplicate));
    let rejected = count(|to| matches!(to, JobDestination::Rejected { .. }));
    json!({
        "accepted": placed.len() - duplicates - rejected,
        "duplicates": duplicates,
        "rejected": rejected,
        "jobs": placed.iter().map(views::placed).collect::<Vec<_>>(),
    })
}

/// All orders of a body, or everything that is wrong with them.
fn orders(bulk: &RunningEngine, bytes: &[u8]) -> Result<Vec<JobSpec>, AdminProblem> {
    let (mut orders, mut wrong) = (Vec::new(), Vec::new());
    for (number, read) in lines(bytes)? {
        let order = read
            .and_then(|line| line.into_spec(None))
            .and_then(|order| {
                let checked = bulk.engine().check(&order);
                checked.map(|()| order).map_err(|why| why.to_string())
            });
        match order {
            Ok(order) => orders.push(order),
            Err(why) => wrong.push(json!({ "job": number, "detail": why })),
        }
    }
    if let Some(first) = wrong.first() {
        let detail = format!(
            "{} {} wrong, and none was taken; job {}: {}",
            wrong.len(),
            if wrong.len() == 1 {
                "job is"
            } else {
                "jobs are"
            },
            first["job"],
            first["detail"].as_str().unwrap_or_default()
        );
        let all = wrong.len();
        wrong.truncate(MOST_TOLD);
        let problem = AdminProblem::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid_jobs", detail);
        let problem = problem.with("wrong", all.into());
        return Err(problem.with("jobs", wrong.into()));
    }
    Ok(orders)
}

type Numbered = (usize, Result<JobLine, String>);

/// The jobs of a body, each with its number: of an array from 1, of lines its line.
fn lines(bytes: &[u8]) -> Result<Vec<Numbered>, AdminProblem> {
    // Some editors write a mark of the order of bytes, which UTF-8 does not need.
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
    let text =
        std::str::from_utf8(bytes).map_err(|_| AdminProblem::bad("the body is not UTF-8"))?;
    let numbered = (1..).zip(text.lines());
    let said = numbered.filter(|(_, line)| !line.trim().is_empty());
    Ok(said
        .map(|(number, line)| (number, JobLine::from_json(line)))
        .collect())
}

/// Enough to see what is wrong with a batch.
const MOST_TOLD: usize = 100;
