//! `ci`: everything that must hold before a change lands, in the order in which it fails fastest.
//!
//! The tests are run by the same code as `cargo xtask test`, so that what a newcomer sees and what
//! a machine checks cannot drift apart.

use anyhow::{Context, Result};

use crate::bench::MANIFEST as BENCHES;
use crate::command::{Program, root};
use crate::stopwatch::Stopwatch;
use crate::{fuzz, test, tidy};

/// Runs every step and stops at the first that fails. None can be left out: a check that can be
/// switched off is switched off.
pub(crate) fn run() -> Result<()> {
    let whole = Stopwatch::start();
    for step in STEPS {
        let watch = Stopwatch::start();
        eprintln!("== {}", step.name);
        (step.run)().with_context(|| format!("ci stopped at {}", step.name))?;
        eprintln!("== {}: {:.1?}", step.name, watch.elapsed());
    }
    eprintln!("== all of ci: {:.1?}", whole.elapsed());
    Ok(())
}

struct Step {
    name: &'static str,
    run: fn() -> Result<()>,
}

const STEPS: [Step; 8] = [
    Step {
        name: "fmt",
        run: || Program::cargo("fmt --all --check").run(),
    },
    Step {
        name: "tidy",
        run: tidy::run,
    },
    Step {
        name: "clippy",
        run: || Program::cargo("clippy --locked --workspace --all-targets -- -D warnings").run(),
    },
    Step {
        name: "doc",
        run: || {
            Program::cargo("doc --workspace --no-deps")
                .env("RUSTDOCFLAGS", "-D warnings")
                .run()
        },
    },
    Step {
        name: "deny",
        run: deny,
    },
    Step {
        name: "test",
        run: || test::run(&test::Options::default()),
    },
    Step {
        name: "clippy of the benchmarks",
        run: benches,
    },
    Step {
        name: "clippy of the fuzz targets",
        run: fuzz::lint,
    },
];

/// Advisories are left out: they need a database from the network, and a change would fail for what
/// was published since, not for what it does. The tool itself is used where it is installed and not
/// installed for the purpose, not even in CI: building it takes longer than all other steps, and
/// dependencies change seldom.
fn deny() -> Result<()> {
    if !Program::cargo("deny --version").succeeds() {
        eprintln!(
            "SKIPPED: cargo-deny is not installed; licences, bans and sources go unchecked here \
             (`cargo install --locked cargo-deny` takes some minutes)"
        );
        return Ok(());
    }
    Program::cargo("deny check bans licenses sources").run()
}

fn benches() -> Result<()> {
    if !root().join(BENCHES).exists() {
        eprintln!("{BENCHES} does not exist: nothing to check");
        return Ok(());
    }
    Program::cargo("clippy --workspace --all-targets --manifest-path")
        .args([BENCHES, "--", "-D", "warnings"])
        .run()
}
