//! How far a run is, shown to whoever looks on: a line for each tenant and one for all.
//!
//! On a terminal the lines are written over; elsewhere they are written anew every few seconds, so that a
//! log of them can be read. Of many tenants the first are shown: the rest is in the total.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use outflow_core::Rate;
use outflow_store::Name;

use super::sitting::Counted;
use crate::bulk::{Demand, Forecast};
use crate::terminal::{Terminal, show, spoken};

/// The board of one run.
pub(super) struct Board {
    terminal: Terminal,
    all: u64,
    tenants: BTreeMap<Name, Goal>,
    /// How many lines stand on the terminal.
    lines: usize,
    /// When it was last shown.
    shown: Option<Duration>,
    /// What was over by tenant when this sitting began.
    before: Option<BTreeMap<Name, (u64, u64)>>,
}

/// What a tenant has before it.
struct Goal {
    jobs: u64,
    allowed: Option<Rate>,
}

impl Board {
    pub(super) fn new(terminal: Terminal, all: &Demand, forecast: &Forecast) -> Self {
        let goal = |(name, jobs): (&Name, u64)| {
            let part = forecast.tenants.get(name);
            let allowed = part.and_then(|part| part.allowed);
            (name.clone(), Goal { jobs, allowed })
        };
        Self {
            terminal,
            all: all.jobs(),
            tenants: all.tenants().map(goal).collect(),
            lines: 0,
            shown: None,
            before: None,
        }
    }

    /// Shows it, if it is time to.
    pub(super) fn show(&mut self, counted: &Counted, before: u64, spent: Duration) {
        let first = self.before.get_or_insert_with(|| counted.tenants.clone());
        let every = if self.terminal.is_watched() {
            GLANCE
        } else {
            A_WHILE
        };
        if self.shown.is_some_and(|shown| spent < shown + every) {
            return;
        }
        self.shown = Some(spent);
        let mut text = String::new();
        for (name, goal) in self.tenants.iter().take(MOST_TENANTS) {
            let (over, not_done) = counted.tenants.get(name).copied().unwrap_or_default();
            let (earlier, _) = first.get(name).copied().unwrap_or_default();
            let pace = Pace::of(over - earlier, spent);
            let allowed = goal.allowed;
            line(
                &mut text,
                name.as_str(),
                &Standing {
                    over,
                    not_done,
                    jobs: goal.jobs,
                    pace,
                    allowed,
                },
            );
        }
        let over = counted.over();
        let total = Standing {
            over,
            not_done: over - counted.done,
            jobs: self.all,
            pace: Pace::of(over - before, spent),
            allowed: None,
        };
        line(&mut text, "all", &total);
        self.write(&text);
    }

    /// Takes it off the terminal; what was written elsewhere stays.
    pub(super) fn wipe(&mut self) {
        if self.terminal.is_watched() {
            show(&format_args!("{}", above(self.lines)));
            self.lines = 0;
        }
    }

    fn write(&mut self, text: &str) {
        if self.terminal.is_watched() {
            show(&format_args!("{}{text}", above(self.lines)));
            self.lines = text.lines().count();
        } else {
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

/// How far somebody is.
struct Standing {
    over: u64,
    not_done: u64,
    jobs: u64,
    pace: Pace,
    allowed: Option<Rate>,
}

fn line(text: &mut String, name: &str, standing: &Standing) {
    let Standing {
        over,
        not_done,
        jobs,
        pace,
        allowed,
    } = standing;
    // Writing to a string cannot fail.
    let _whole = write!(text, "{name}: {over}/{jobs}");
    if *not_done > 0 {
        let _whole = write!(text, ", {not_done} of them not done");
    }
    let _whole = write!(text, ", {pace}");
    if let Some(allowed) = allowed {
        let _whole = write!(text, " of {allowed}");
    }
    if let Some(left) = pace.left(jobs.saturating_sub(*over)) {
        let _whole = write!(text, ", {} left", spoken(left));
    }
    text.push('\n');
}

/// How fast it goes: so many in so long.
#[derive(Clone, Copy)]
struct Pace {
    jobs: u64,
    spent: Duration,
}

impl Pace {
    const fn of(jobs: u64, spent: Duration) -> Self {
        Self { jobs, spent }
    }

    /// How long so many more take.
    fn left(self, more: u64) -> Option<Duration> {
        let nanos = self.spent.as_nanos() * u128::from(more);
        let nanos = nanos.checked_div(u128::from(self.jobs))?;
        (more > 0).then(|| Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)))
    }
}

impl std::fmt::Display for Pace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let tenths = u128::from(self.jobs) * 10_000 / self.spent.as_millis().max(1);
        write!(f, "{}.{}/s", tenths / 10, tenths % 10)
    }
}

/// Often enough to look alive.
const GLANCE: Duration = Duration::from_millis(500);

/// A log of an hour then has seven hundred of each line.
const A_WHILE: Duration = Duration::from_secs(5);

/// As many as leave room for something else on a screen.
const MOST_TENANTS: usize = 12;

#[cfg(test)]
mod tests {
    use super::*;

    // 25 of 100 in ten seconds, two of them failed: 2.5 a second, thirty seconds more.
    #[test]
    fn a_line_says_how_far_how_fast_and_how_long() {
        let mut text = String::new();
        let standing = Standing {
            over: 25,
            not_done: 2,
            jobs: 100,
            pace: Pace::of(25, Duration::from_secs(10)),
            allowed: "10/s".parse().ok(),
        };
        line(&mut text, "acme", &standing);
        assert_eq!(
            text,
            "acme: 25/100, 2 of them not done, 2.5/s of 10/s, 30.0 s left\n"
        );
    }

    #[test]
    fn nothing_is_promised_before_something_was_done() {
        assert_eq!(Pace::of(0, Duration::from_secs(1)).left(5), None);
        assert_eq!(Pace::of(5, Duration::from_secs(1)).left(0), None);
    }
}
