//! Where a process can be made to die, for tests of what a crash leaves.
//!
//! With the feature `failpoints`, the variable `OUTFLOW_FAILPOINT=name:count` ends the process at the
//! `count`th passing of a point: `submitted`, `claimed`, `settled` or `changed`, before the commit that
//! holds such a change, or after it with `+` behind the name (`submitted+:3`). Without the feature there
//! is nothing here.

use super::change::{Change, MarkState, Step};

/// The kinds of change that a transaction holds.
pub(super) type Points = Vec<&'static str>;

/// What a transaction is about to hold.
pub(super) fn points(steps: &[Step]) -> Points {
    if cfg!(feature = "failpoints") {
        let mut points: Points = steps.iter().map(|step| point(&step.change)).collect();
        points.sort_unstable();
        points.dedup();
        points
    } else {
        Points::new()
    }
}

fn point(change: &Change) -> &'static str {
    match change {
        Change::Submit(_) => "submitted",
        Change::Mark(mark) if mark.state == MarkState::Claimed => "claimed",
        Change::Over(_) | Change::Mark(_) | Change::Unmark(_) => "settled",
        _ => "changed",
    }
}

/// A transaction begins.
pub(super) fn before(points: &[&str]) {
    pass(points, "");
}

/// A transaction was committed, and nobody was told.
pub(super) fn after(points: &[&str]) {
    pass(points, "+");
}

#[cfg(not(feature = "failpoints"))]
fn pass(_points: &[&str], _side: &str) {}

#[cfg(feature = "failpoints")]
fn pass(points: &[&str], side: &str) {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU64, Ordering};

    static ASKED: OnceLock<Option<(String, u64)>> = OnceLock::new();
    static PASSED: AtomicU64 = AtomicU64::new(0);
    let asked = ASKED.get_or_init(|| {
        let text = std::env::var("OUTFLOW_FAILPOINT").ok()?;
        let (name, count) = text.split_once(':')?;
        Some((name.to_owned(), count.parse().ok()?))
    });
    let Some((name, count)) = asked else {
        return;
    };
    let here = points.iter().any(|point| format!("{point}{side}") == *name);
    if here && PASSED.fetch_add(1, Ordering::Relaxed) + 1 == *count {
        std::process::abort();
    }
}
