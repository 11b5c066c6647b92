//! Points at which a test can kill the process.
//!
//! With the feature `failpoints`, the variable `OUTFLOW_FAILPOINT=name:count` ends the process when it
//! passes a point for the `count`th time. A point is `commit`, or `submitted`, `claimed`, `settled` or
//! `changed` for a commit with such a change. The process ends before the commit, or after it with `+`
//! after the name (`submitted+:3`). `OUTFLOW_FAILPOINT=record` prints a line for each passed point, so
//! that a test can count them. Without the feature the points do nothing.

use super::disk::write_op::{MarkState, WriteOp, WriteStep};

/// The points of a transaction.
pub(super) type Points = Vec<&'static str>;

/// Returns the points of a transaction.
pub(super) fn points(steps: &[WriteStep]) -> Points {
    if cfg!(feature = "failpoints") {
        let mut points: Points = steps.iter().map(|step| point(&step.op)).collect();
        points.push("commit");
        points.sort_unstable();
        points.dedup();
        points
    } else {
        Points::new()
    }
}

fn point(op: &WriteOp) -> &'static str {
    match op {
        WriteOp::Submit(_) => "submitted",
        WriteOp::Mark(mark) if mark.state == MarkState::Claimed => "claimed",
        WriteOp::Over(..) | WriteOp::Mark(_) | WriteOp::Unmark(_) => "settled",
        _ => "changed",
    }
}

/// Passes the points before a commit.
pub(super) fn before(points: &[&str]) {
    pass(points, "");
}

/// Passes the points after a commit, before any response.
pub(super) fn after(points: &[&str]) {
    pass(points, "+");
}

#[cfg(not(feature = "failpoints"))]
fn pass(_points: &[&str], _side: &str) {}

#[cfg(feature = "failpoints")]
fn pass(points: &[&str], side: &str) {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU64, Ordering};

    static REQUEST: OnceLock<PointRequest> = OnceLock::new();
    static PASSED: AtomicU64 = AtomicU64::new(0);
    let request = REQUEST.get_or_init(|| {
        let text = std::env::var("OUTFLOW_FAILPOINT").unwrap_or_default();
        PointRequest::parse(&text)
    });
    match request {
        PointRequest::Record if side.is_empty() => record(points),
        PointRequest::Nothing | PointRequest::Record => {}
        PointRequest::Die { name, count } => {
            let here = points.iter().any(|point| format!("{point}{side}") == *name);
            if here && PASSED.fetch_add(1, Ordering::Relaxed) + 1 == *count {
                std::process::abort();
            }
        }
    }
}

/// The request of the environment.
#[cfg(feature = "failpoints")]
enum PointRequest {
    Nothing,
    Record,
    Die { name: String, count: u64 },
}

#[cfg(feature = "failpoints")]
impl PointRequest {
    fn parse(text: &str) -> Self {
        let point = text.split_once(':');
        let point = point.and_then(|(name, count)| Some((name.to_owned(), count.parse().ok()?)));
        match point {
            Some((name, count)) => Self::Die { name, count },
            None if text == "record" => Self::Record,
            None => Self::Nothing,
        }
    }
}

/// Prints all lines in one write, so that they do not mix with other output.
#[cfg(feature = "failpoints")]
fn record(points: &[&str]) {
    use std::io::Write;

    let lines = points.iter().map(|point| format!("passed {point}\n"));
    let lines = lines.collect::<Vec<_>>().concat();
    // Only a recording test reads it.
    let _written = std::io::stderr().write_all(lines.as_bytes());
}
