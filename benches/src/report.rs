//! All figures of one run, with the load of the machine.

use serde::Serialize;

use crate::figure::{self, Figure};

/// Result of a run.
#[derive(Serialize)]
pub(crate) struct Report {
    bench: &'static str,
    /// Unit of the numbers, for people.
    #[serde(skip)]
    unit: &'static str,
    /// Load average over the last minute; a busy machine widens the spread.
    load: Option<f64>,
    figures: Vec<Figure>,
}

impl Report {
    pub(crate) fn new(bench: &'static str, unit: &'static str, figures: Vec<Figure>) -> Self {
        Self {
            bench,
            unit,
            load: load_average(),
            figures,
        }
    }

    /// Formats the report for people.
    pub(crate) fn table(&self) -> String {
        let load = self
            .load
            .map_or_else(|| "unknown".to_owned(), |load| format!("{load:.2}"));
        let judged = self.figures.iter().filter(|figure| figure.goal.is_some());
        let reached = judged.clone().filter(|figure| figure.ok).count();
        format!(
            "{}: {}; ratio is ours/peer, the median over the rounds; spread is the distance between its \
             quartiles; load average {load}\n\n{}\n\n{reached} of {} goals reached",
            self.bench,
            self.unit,
            figure::table(&self.figures),
            judged.count()
        )
    }

    /// Formats the report for machines: one line.
    pub(crate) fn json(&self) -> String {
        serde_json::to_string(self).unwrap_or_else(|error| format!("{{\"error\":\"{error}\"}}"))
    }
}

/// Returns `None` if the system does not report it.
fn load_average() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/loadavg").ok()?;
    text.split_whitespace().next()?.parse().ok()
}
