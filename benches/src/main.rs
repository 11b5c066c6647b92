//! Measures ours and its peers in one run, and says who lost.
//!
//! `outflow-bench core [--json] [--quick]` prints a table; with `--json` its last line is one object
//! for machines. The exit code tells whether it ran, not whether it won.

use std::io::Write as _;
use std::process::ExitCode;

use measure::Plan;

mod alloc;
mod clock;
mod contenders;
mod crowd;
mod figure;
mod figures;
mod measure;
mod report;

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
    let report = report::Report::new("core", figures::core(asked.plan));
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
    plan: Plan,
    format: Format,
}

enum Format {
    Table,
    Json,
}

impl Asked {
    fn read(words: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut asked = Self {
            plan: Plan::FULL,
            format: Format::Table,
        };
        let mut bench = None;
        for word in words {
            match word.as_str() {
                "core" => bench = Some(word),
                "--json" => asked.format = Format::Json,
                "--quick" => asked.plan = Plan::QUICK,
                _ => return Err(format!("`{word}` is not known here")),
            }
        }
        bench.ok_or("which benchmark?".to_owned())?;
        Ok(asked)
    }
}

const USAGE: &str = "usage: outflow-bench core [--json] [--quick]";
