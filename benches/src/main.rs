//! Measures ours and its peers in one run, and says who lost.
//!
//! `outflow-bench NAME [--json] [--quick]` prints a table; with `--json` its last line is one object
//! for machines. The exit code tells whether it ran, not whether it won.

use std::io::Write as _;
use std::process::ExitCode;

use figure::Figure;
use measure::Plan;

mod alloc;
mod client;
mod clock;
mod contenders;
mod crowd;
mod figure;
mod figures;
mod measure;
mod proxies;
mod proxy;
mod report;
mod storm;
mod tasks;
mod waiters;
mod zero429;

#[global_allocator]
static ALLOCATOR: alloc::Counting = alloc::Counting;

fn main() -> ExitCode {
    let asked = match Asked::read(std::env::args().skip(1)) {
        Ok(asked) => asked,
        Err(mistake) => {
            eprintln!("{mistake}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    let Suite { name, unit, run } = asked.suite;
    let report = report::Report::new(name, unit, run(asked.plan));
    let mut out = std::io::stdout().lock();
    let shown = writeln!(out, "{}", report.table());
    let told = match asked.format {
        Format::Table => Ok(()),
        Format::Json => writeln!(out, "{}", report.json()),
    };
    // A reader that went away is no failure of the benchmark.
    let _ = shown.and(told);
    ExitCode::SUCCESS
}

/// What the caller wants.
struct Asked {
    suite: &'static Suite,
    plan: Plan,
    format: Format,
}

enum Format {
    Table,
    Json,
}

/// One benchmark.
struct Suite {
    name: &'static str,
    /// What its numbers are.
    unit: &'static str,
    run: fn(Plan) -> Vec<Figure>,
}

impl Asked {
    fn read(words: impl Iterator<Item = String>) -> Result<Self, String> {
        let (mut plan, mut format, mut suite) = (Plan::FULL, Format::Table, None);
        for word in words {
            match word.as_str() {
                "--json" => format = Format::Json,
                "--quick" => plan = Plan::QUICK,
                name => match SUITES.iter().find(|suite| suite.name == name) {
                    Some(known) => suite = Some(known),
                    None => return Err(format!("`{name}` is not known here")),
                },
            }
        }
        let suite = suite.ok_or("which benchmark?")?;
        Ok(Self {
            suite,
            plan,
            format,
        })
    }
}

const SUITES: [Suite; 6] = [
    Suite {
        name: "core",
        unit: "ns per operation unless the name says otherwise",
        run: figures::core,
    },
    Suite {
        name: "waiters",
        unit: "shares of the ideal or the limit, counts, or what the name says",
        run: waiters::figures,
    },
    Suite {
        name: "zero429",
        unit: "refusals, and shares of the best possible",
        run: zero429::figures,
    },
    Suite {
        name: "client",
        unit: "microseconds of processor time per call, over bare hyper where the name says overhead",
        run: client::figures,
    },
    Suite {
        name: "storm",
        unit: "shares of the ideal, and counts",
        run: storm::figures,
    },
    Suite {
        name: "proxy",
        unit: "what the name says; ours has limits, health, metrics and the log on",
        run: proxy::figures,
    },
];

const USAGE: &str =
    "usage: outflow-bench core|waiters|zero429|client|storm|proxy [--json] [--quick]";
