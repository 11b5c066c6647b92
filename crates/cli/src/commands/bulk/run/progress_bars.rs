//! How far a run is, shown to whoever looks on: a bar for each tenant and one for all.
//!
//! On a terminal the bars are drawn over each other; elsewhere lines are written anew every few seconds,
//! so that a log of them can be read. Of many tenants some are shown, those with work left first, and the
//! rest is added up.

mod bar;

use std::collections::BTreeMap;
use std::time::Duration;

use outflow_bulk::{JobRate, TenantBounds, TenantWorkload, Workload};
use outflow_store::Name;

use self::bar::{BarRate, ProgressBar};
use super::line_results::LineCounts;
use crate::terminal::{Terminal, show};

/// The board of one run.
pub(super) struct ProgressBars {
    terminal: Terminal,
    all: u64,
    rate: BarRate,
    tenants: BTreeMap<Name, TenantGoal>,
    /// How many lines stand on the terminal.
    lines: usize,
    /// When it was last shown.
    shown: Option<Duration>,
    /// What was over by tenant when this sitting began.
    before: Option<BTreeMap<Name, (u64, u64)>>,
}

/// What a tenant has before it.
struct TenantGoal {
    jobs: u64,
    allowed: Option<JobRate>,
    /// Least time that limits need, from the beginning on.
    lower_bound: Duration,
    rate: BarRate,
}

impl ProgressBars {
    pub(super) fn new(terminal: Terminal, all: &Workload, forecast: &TenantBounds) -> Self {
        let goal = |(name, wanted): (&Name, &TenantWorkload)| {
            let jobs = wanted.all.jobs;
            let part = forecast.tenants.get(name);
            let goal = TenantGoal {
                jobs,
                allowed: part.and_then(|part| part.allowed),
                lower_bound: part.map_or(Duration::ZERO, |part| part.alone),
                rate: BarRate::default(),
            };
            (name.clone(), goal)
        };
        Self {
            terminal,
            all: all.jobs(),
            rate: BarRate::default(),
            tenants: all.tenants().map(goal).collect(),
            lines: 0,
            shown: None,
            before: None,
        }
    }

    /// Returns true if the bars are to be shown again.
    pub(super) fn is_due(&self, spent: Duration) -> bool {
        let every = if self.terminal.is_watched() {
            GLANCE
        } else {
            A_WHILE
        };
        self.shown.is_none_or(|shown| spent >= shown + every)
    }

    /// Shows the bars, with the engine's estimate of the whole run.
    pub(super) fn show(
        &mut self,
        counted: &LineCounts,
        before: u64,
        spent: Duration,
        eta: Option<Duration>,
    ) {
        self.before.get_or_insert_with(|| counted.tenants.clone());
        self.shown = Some(spent);
        let mut rows = self.rows(counted, spent);
        let over = counted.over();
        rows.push(ProgressBar {
            name: "all".to_owned(),
            over,
            not_done: over - counted.done,
            jobs: self.all.max(over),
            throughput: self.rate.record(over.saturating_sub(before), spent),
            allowed: None,
            lower_bound: Duration::ZERO,
            eta,
        });
        self.write(&rows);
    }

    /// The rows of the tenants: some of them, and the rest in one.
    fn rows(&mut self, counted: &LineCounts, spent: Duration) -> Vec<ProgressBar> {
        let rows = self.tenants.iter_mut().map(|(name, goal)| {
            let (over, not_done) = counted.tenants.get(name).copied().unwrap_or_default();
            let before = self.before.as_ref().and_then(|before| before.get(name));
            let (earlier, _) = before.copied().unwrap_or_default();
            let bar = ProgressBar {
                name: name.to_string(),
                over,
                not_done,
                jobs: goal.jobs.max(over),
                throughput: goal.rate.record(over.saturating_sub(earlier), spent),
                allowed: goal.allowed,
                lower_bound: goal.lower_bound.saturating_sub(spent),
                eta: None,
            };
            bar.with_estimate()
        });
        let mut rows: Vec<_> = rows.collect();
        rows.sort_by_key(ProgressBar::is_over);
        if rows.len() > MOST_TENANTS {
            let rest = rows.split_off(MOST_TENANTS);
            let name = format!("and {} more", rest.len());
            rows.extend(
                rest.into_iter()
                    .reduce(ProgressBar::plus)
                    .map(|sum| ProgressBar { name, ..sum }),
            );
        }
        rows
    }

    /// Takes it off the terminal; what was written elsewhere stays.
    pub(super) fn wipe(&mut self) {
        if self.terminal.is_watched() {
            show(&format_args!("{}", above(self.lines)));
            self.lines = 0;
        }
    }

    fn write(&mut self, rows: &[ProgressBar]) {
        if self.terminal.is_watched() {
            let text: String = rows.iter().map(ProgressBar::drawn).collect();
            show(&format_args!("{}{text}", above(self.lines)));
            self.lines = rows.len();
        } else {
            let text: String = rows.iter().map(ProgressBar::render).collect();
            show(&text);
        }
    }
}

/// Back to the first of so many lines, and clears from there on.
fn above(lines: usize) -> String {
    match lines {
        0 => String::new(),
        lines => format!("\u{1b}[{lines}A\u{1b}[J"),
    }
}

/// Often enough to look alive.
const GLANCE: Duration = Duration::from_millis(500);

/// A log of an hour then has seven hundred of each line.
const A_WHILE: Duration = Duration::from_secs(5);

/// As many as leave room for something else on a screen.
const MOST_TENANTS: usize = 12;
