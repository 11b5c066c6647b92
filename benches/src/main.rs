//! Measures ours and its peers in one run, and reports which goals were missed.
//!
//! `outflow-bench NAME [--json] [--quick]` prints a table; with `--json` its last line is one object for
//! machines. The exit code reports whether it ran, not whether it won. `outflow-bench soak SECONDS RATE` has no
//! peers and measures growth; `cargo xtask soak` starts it.

use std::io::Write as _;
use std::process::ExitCode;
use std::time::Duration;

use figure::Figure;
use measure::Plan;
use report::Report;
use soak::Wanted;

mod alloc;
mod bulk;
mod client;
mod clock;
mod contenders;
mod figure;
mod figures;
mod ledger;
mod measure;
mod parallel;
mod program;
mod proxies;
mod proxy;
mod recovery;
mod report;
mod soak;
mod storm;
mod tasks;
mod throughput;
mod waiters;
mod zero429;

#[global_allocator]
static ALLOCATOR: alloc::Counting = alloc::Counting;

fn main() -> ExitCode {
    let args = match BenchArgs::read(std::env::args().skip(1)) {
        Ok(args) => args,
        Err(error) => {
            eprintln!("{error}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    let report = match args.report() {
        Ok(report) => report,
        Err(why) => {
            eprintln!("the benchmark did not run: {why}");
            return ExitCode::FAILURE;
        }
    };
    let mut out = std::io::stdout().lock();
    let shown = writeln!(out, "{}", report.table());
    let written = match args.format {
        Format::Table => Ok(()),
        Format::Json => writeln!(out, "{}", report.json()),
    };
    // A reader that closes the pipe is not an error of the benchmark.
    let _ = shown.and(written);
    ExitCode::SUCCESS
}

/// Parsed command line.
struct BenchArgs {
    job: Job,
    format: Format,
}

enum Job {
    Suite(&'static Suite, Plan),
    /// Factor of the stated rates.
    Bulk(Plan, u64),
    Soak(Wanted),
}

enum Format {
    Table,
    Json,
}

/// One benchmark.
struct Suite {
    name: &'static str,
    /// Unit of its numbers.
    unit: &'static str,
    run: fn(Plan) -> Vec<Figure>,
}

impl BenchArgs {
    fn read(mut words: impl Iterator<Item = String>) -> Result<Self, String> {
        let (mut plan, mut format, mut suite) = (Plan::FULL, Format::Table, None);
        let (mut soak, mut bulk, mut scale) = (None, None, 1);
        while let Some(word) = words.next() {
            match word.as_str() {
                "--json" => format = Format::Json,
                "--quick" => plan = Plan::QUICK,
                "--scale" => scale = multiple(words.next())?,
                "bulk" => bulk = Some(Job::Bulk),
                "soak" => soak = Some(wanted(&mut words)?),
                name => match SUITES.iter().find(|suite| suite.name == name) {
                    Some(known) => suite = Some(known),
                    None => return Err(format!("unknown benchmark `{name}`")),
                },
            }
        }
        let job = match (soak, bulk) {
            (Some(wanted), _) => Job::Soak(wanted),
            (None, Some(job)) => job(plan, scale),
            (None, None) => Job::Suite(suite.ok_or("which benchmark?")?, plan),
        };
        Ok(Self { job, format })
    }

    fn report(&self) -> std::io::Result<Report> {
        Ok(match &self.job {
            Job::Suite(suite, plan) => Report::new(suite.name, suite.unit, (suite.run)(*plan)),
            Job::Bulk(plan, scale) => Report::new("bulk", BULK_UNIT, bulk::figures(*plan, *scale)),
            Job::Soak(wanted) => Report::new("soak", SOAK_UNIT, soak::figures(*wanted)?),
        })
    }
}

/// Parses the factor of the rates.
fn multiple(word: Option<String>) -> Result<u64, String> {
    let number = word.and_then(|word| word.parse().ok());
    let number = number.filter(|number| (1..=MAX_SCALE).contains(number));
    number.ok_or_else(|| format!("--scale requires a number from 1 to {MAX_SCALE}"))
}

/// Parses duration and rate of a soak: two whole numbers.
fn wanted(words: &mut impl Iterator<Item = String>) -> Result<Wanted, String> {
    let mut number = || words.next().and_then(|word| word.parse::<u32>().ok());
    let (Some(seconds), Some(rate)) = (number(), number()) else {
        return Err("soak requires seconds and calls a second".to_owned());
    };
    Ok(Wanted {
        span: Duration::from_secs(seconds.into()),
        rate,
    })
}

const SUITES: [Suite; 9] = [
    Suite {
        name: "ledger",
        unit: "microseconds of the server, nanoseconds of this host, or shares",
        run: ledger::figures,
    },
    Suite {
        name: "core",
        unit: "ns per operation unless the name states another unit",
        run: figures::core,
    },
    Suite {
        name: "waiters",
        unit: "shares of the ideal or the limit, counts, or the unit of the name",
        run: waiters::figures,
    },
    Suite {
        name: "zero429",
        unit: "throttles, and shares of the best possible",
        run: zero429::figures,
    },
    Suite {
        name: "client",
        unit: "microseconds of processor time per call, over bare hyper where the name says overhead",
        run: client::figures,
    },
    Suite {
        name: "recovery",
        unit: "seconds after healing, calls a second, percent, or counts, by the name; the worst of three instants of healing",
        run: recovery::figures,
    },
    Suite {
        name: "storm",
        unit: "shares of the ideal, and counts",
        run: storm::figures,
    },
    Suite {
        name: "proxy",
        unit: "the unit of the name; ours has limits, health, metrics and the log on",
        run: proxy::figures,
    },
    Suite {
        name: "throughput",
        unit: "the unit of the name, per job that does nothing",
        run: throughput::figures,
    },
];

/// A thousand times is thirty thousand calls a second, more than a machine sends.
const MAX_SCALE: u64 = 1_000;

const BULK_UNIT: &str = "shares of the ideal or the limit, counts, or the unit of the name";

const SOAK_UNIT: &str = "growth, unexplained counter differences, and the unit of the name";

const USAGE: &str =
    "usage: outflow-bench core|waiters|zero429|client|recovery|storm|proxy|throughput [--json] [--quick]
       outflow-bench bulk [--scale N] [--json] [--quick]
       outflow-bench soak SECONDS RATE [--json]";
