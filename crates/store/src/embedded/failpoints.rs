//! Where a process can be made to die, for tests of what a crash leaves.
//!
//! With the feature `failpoints`, the variable `OUTFLOW_FAILPOINT=name:count` ends the process at the
//! `count`th passing of a point: `commit`, or `submitted`, `claimed`, `settled` or `changed` for a commit
//! that holds such a change, before it, or after it with `+` behind the name (`submitted+:3`). With
//! `OUTFLOW_FAILPOINT=record` a line is printed for each point that is passed, so that a test knows how
//! many there are. Without the feature there is nothing here.

use super::disk::write_op::{MarkState, WriteOp, WriteStep};

/// The kinds of change that a transaction holds.
pub(crate) type Points = Vec<&'static str>;

/// What a transaction is about to hold.
pub(crate) fn points(steps: &[WriteStep]) -> Points {
    if cfg!(feature = "failpoints") {
        let mut points: Points = steps.iter().map(|step| point(&step.change)).collect();
        points.push("commit");
        points.sort_unstable();
        points.dedup();
        points
    } else {
        Points::new()
    }
}

fn point(change: &WriteOp) -> &'static str {
    match change {
        WriteOp::Submit(_) => "submitted",
        WriteOp::Mark(mark) if mark.state == MarkState::Claimed => "claimed",
        WriteOp::Over(_) | WriteOp::Mark(_) | WriteOp::Unmark(_) => "settled",
        _ => "changed",
    }
}

/// A transaction begins.
pub(crate) fn before(points: &[&str]) {
    pass(points, "");
}

/// A transaction was committed, and nobody was told.
pub(crate) fn after(points: &[&str]) {
    pass(points, "+");
}

#[cfg(not(feature = "failpoints"))]
fn pass(_points: &[&str], _side: &str) {}

#[cfg(feature = "failpoints")]
fn pass(points: &[&str], side: &str) {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU64, Ordering};

    static ASKED: OnceLock<PointQuery> = OnceLock::new();
    static PASSED: AtomicU64 = AtomicU64::new(0);
    let asked = ASKED.get_or_init(|| {
        let text = std::env::var("OUTFLOW_FAILPOINT").unwrap_or_default();
        PointQuery::read(&text)
    });
    match asked {
        PointQuery::Record if side.is_empty() => record(points),
        PointQuery::Nothing | PointQuery::Record => {}
        PointQuery::Die { name, count } => {
            let here = points.iter().any(|point| format!("{point}{side}") == *name);
            if here && PASSED.fetch_add(1, Ordering::Relaxed) + 1 == *count {
                std::process::abort();
            }
        }
    }
}

/// What is asked of the points.
#[cfg(feature = "failpoints")]
enum PointQuery {
    Nothing,
    Record,
    Die { name: String, count: u64 },
}

#[cfg(feature = "failpoints")]
impl PointQuery {
    fn read(text: &str) -> Self {
        let point = text.split_once(':');
        let point = point.and_then(|(name, count)| Some((name.to_owned(), count.parse().ok()?)));
        match point {
            Some((name, count)) => Self::Die { name, count },
            None if text == "record" => Self::Record,
            None => Self::Nothing,
        }
    }
}

/// Whole lines in one write, so that they do not mix with those of others.
#[cfg(feature = "failpoints")]
fn record(points: &[&str]) {
    use std::io::Write;

    let lines = points.iter().map(|point| format!("passed {point}\n"));
    let lines = lines.collect::<Vec<_>>().concat();
    // Whoever records reads it; nobody else does.
    let _unheard = std::io::stderr().write_all(lines.as_bytes());
}
