//! Progress of a run: a bar for each tenant and one for all.
//!
//! On a terminal the bars are redrawn in place; elsewhere a line for each is written every few seconds, so
//! that a log stays readable. Of many tenants some are shown, those with work left first, and one bar sums
//! up the rest.

mod bar;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use indicatif::{MultiProgress, ProgressStyle};
use outflow_bulk::{JobRate, TenantBounds, TenantWorkload, Workload};
use outflow_store::Name;

use self::bar::{BarRate, TenantProgress};
use super::line_results::LineCounts;
use crate::terminal::{Terminal, say, show};

/// Progress bars of one run.
pub(super) struct ProgressBars {
    terminal: Terminal,
    all: u64,
    rate: BarRate,
    tenants: BTreeMap<Name, TenantGoal>,
    screen: MultiProgress,
    bars: Vec<indicatif::ProgressBar>,
    /// Instant of the last update.
    shown: Option<Duration>,
    /// Causes of waits that were printed, without their figures.
    said: BTreeSet<String>,
    /// Finished jobs by tenant at the start of this run.
    before: Option<BTreeMap<Name, (u64, u64)>>,
}

/// Remaining time of a run, and what its jobs wait for.
#[derive(Clone, Debug, Default)]
pub(super) struct RunProgress {
    pub(super) eta: Option<Duration>,
    /// Remaining time of the first tenants.
    pub(super) tenants: BTreeMap<Name, Duration>,
    pub(super) waits: Vec<String>,
}

/// Work and limits of a tenant.
struct TenantGoal {
    jobs: u64,
    allowed: Option<JobRate>,
    rate: BarRate,
}

impl ProgressBars {
    pub(super) fn new(terminal: Terminal, all: &Workload, bounds: &TenantBounds) -> Self {
        let goal = |(name, workload): (&Name, &TenantWorkload)| {
            let jobs = workload.all.jobs;
            let part = bounds.tenants.get(name);
            let goal = TenantGoal {
                jobs,
                allowed: part.and_then(|part| part.allowed),
                rate: BarRate::default(),
            };
            (name.clone(), goal)
        };
        Self {
            terminal,
            all: all.jobs(),
            rate: BarRate::default(),
            tenants: all.tenants().map(goal).collect(),
            screen: MultiProgress::new(),
            bars: Vec::new(),
            shown: None,
            said: BTreeSet::new(),
            before: None,
        }
    }

    /// Returns true if the bars are to be shown again.
    pub(super) fn is_due(&self, spent: Duration) -> bool {
        let every = if self.terminal.is_watched { REDRAW } else { LOG_PERIOD };
        self.shown.is_none_or(|shown| spent >= shown + every)
    }

    /// Shows the bars, with the engine's estimate of the whole run. A run in which no job ends says what it waits for.
    pub(super) fn show(&mut self, counted: &LineCounts, before: u64, spent: Duration, estimate: RunProgress) {
        self.before.get_or_insert_with(|| counted.tenants.clone());
        self.shown = Some(spent);
        let mut rows = self.rows(counted, spent, &estimate.tenants);
        let over = counted.over();
        let throughput = self.rate.record(over.saturating_sub(before), spent);
        let is_stalled = throughput.idle >= STALLED;
        if is_stalled && self.terminal.is_watched {
            self.say_waits(&estimate.waits);
        }
        rows.push(TenantProgress {
            name: "all".to_owned(),
            over,
            not_done: over - counted.done,
            jobs: self.all.max(over),
            throughput,
            allowed: None,
            eta: estimate.eta,
            waits: estimate.waits.into_iter().filter(|_| is_stalled).collect(),
        });
        self.write(&rows);
    }

    /// Prints what jobs wait for above the bars, where a line is not cut off. The same cause is printed once.
    fn say_waits(&mut self, waits: &[String]) {
        let cause = |sentence: &String| sentence.chars().filter(|letter| !letter.is_ascii_digit()).collect();
        for sentence in waits {
            if self.said.insert(cause(sentence)) {
                self.say(sentence);
            }
        }
    }

    /// Returns the rows of tenants: some single ones, and one for the rest.
    fn rows(&mut self, counted: &LineCounts, spent: Duration, etas: &BTreeMap<Name, Duration>) -> Vec<TenantProgress> {
        let rows = self.tenants.iter_mut().map(|(name, goal)| {
            let (over, not_done) = counted.tenants.get(name).copied().unwrap_or_default();
            let before = self.before.as_ref().and_then(|before| before.get(name));
            let (previous, _) = before.copied().unwrap_or_default();
            TenantProgress {
                name: name.to_string(),
                over,
                not_done,
                jobs: goal.jobs.max(over),
                throughput: goal.rate.record(over.saturating_sub(previous), spent),
                allowed: goal.allowed,
                eta: etas.get(name).copied(),
                waits: Vec::new(),
            }
        });
        let mut rows: Vec<_> = rows.collect();
        rows.sort_by_key(TenantProgress::is_over);
        if rows.len() > MAX_TENANTS {
            let rest = rows.split_off(MAX_TENANTS);
            let name = format!("and {} more", rest.len());
            rows.extend(
                rest.into_iter()
                    .reduce(TenantProgress::plus)
                    .map(|sum| TenantProgress { name, ..sum }),
            );
        }
        rows
    }

    /// Removes the bars from the terminal; lines that were written elsewhere stay.
    pub(super) fn wipe(&mut self) {
        // A terminal that cannot be written to changes no result.
        let _ignored = self.screen.clear();
        self.bars.clear();
    }

    /// Prints a line above the bars.
    pub(super) fn say(&self, line: &str) {
        self.screen.suspend(|| say!("{line}"));
    }

    fn write(&mut self, rows: &[TenantProgress]) {
        if !self.terminal.is_watched {
            let text: String = rows.iter().map(TenantProgress::render).collect();
            show(&text);
            return;
        }
        while self.bars.len() < rows.len() {
            let bar = indicatif::ProgressBar::no_length().with_style(style());
            self.bars.push(self.screen.add(bar));
        }
        for (bar, row) in self.bars.iter().zip(rows) {
            row.draw(bar);
        }
    }
}

/// Returns the style: name, bar and figures, cut at the edge of the terminal.
fn style() -> ProgressStyle {
    ProgressStyle::with_template(BAR)
        .unwrap_or_else(|_| ProgressStyle::default_bar())
        .progress_chars("#..")
}

const BAR: &str = "{prefix:14!} [{bar:20}] {wide_msg}";

/// Often enough to look live.
const REDRAW: Duration = Duration::from_millis(500);

/// Gives seven hundred lines per bar in an hour.
const LOG_PERIOD: Duration = Duration::from_secs(5);

/// A run without an end for this long says what it waits for.
const STALLED: Duration = Duration::from_secs(2);

/// Leaves space for other output on a screen.
const MAX_TENANTS: usize = 12;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_form_of_a_bar_is_valid() {
        assert!(ProgressStyle::with_template(BAR).is_ok());
    }
}
