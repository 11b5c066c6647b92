//! Figures of the embedded store's directory: its size, its written bytes, and its opening time.
//!
//! Written bytes are reported by the system for this process, in whole pages. So nothing else may write
//! meanwhile, and these figures come before stores that close in the background.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;

use outflow::SystemClock;
use outflow_store::EmbeddedStore;

use super::contender::Contender;
use super::life::timed;
use super::ours::Shape;
use super::ours_embedded::fresh;
use crate::clock;
use crate::figure::{Figure, Goal};
use crate::measure::{Plan, approx};

/// Measures every figure.
pub(super) fn figures(plan: Plan) -> Vec<Figure> {
    let jobs = if plan.is_thorough() { A_MILLION } else { 100_000 };
    let mut figures = directory(jobs).unwrap_or_else(|why| {
        let why = format!("missing: {why}");
        vec![Figure::missing("embedded_bytes_per_job", "", &why)]
    });
    figures.push(written_in_a_life(LIVES));
    figures
}

fn directory(jobs: u64) -> io::Result<Vec<Figure>> {
    let mut store = fresh(Shape::DEFAULT)?;
    let before = written()?;
    store.enqueue(jobs)?;
    // Deferred writes belong to these jobs as well.
    let home = store.end();
    let opened = timed(|| reopened(home.path()).map(drop))?;
    let written = written()?.saturating_sub(before);
    let held = size(home.path())?;
    let per_job = |bytes| [approx(bytes) / approx(jobs)];
    // Fewer jobs open faster, and prove nothing.
    let soon = if jobs < A_MILLION { Goal::Shown } else { Goal::Own(0.25) };
    Ok(vec![
        Figure::alone("embedded_bytes_per_job", Goal::Own(150.0), &per_job(held)),
        Figure::alone("embedded_submit_written_per_job", Goal::Shown, &per_job(written)),
        Figure::alone(&format!("embedded_open_{}", short(jobs)), soon, &[opened.as_secs_f64()]),
    ])
}

/// Measures from the submission of jobs to their end, and the writes that remain when the store is opened
/// again.
fn written_in_a_life(jobs: u64) -> Figure {
    let name = "embedded_written_per_job";
    let life = || -> io::Result<u64> {
        let mut store = fresh(Shape::DEFAULT)?;
        let before = written()?;
        store.enqueue(jobs)?;
        store.drain(jobs)?;
        let home = store.end();
        reopened(home.path())?;
        Ok(written()?.saturating_sub(before))
    };
    match life() {
        Ok(bytes) => {
            let per_job = approx(bytes) / approx(jobs);
            Figure::alone(name, Goal::Own(1_024.0), &[per_job])
        }
        Err(why) => Figure::missing(name, "", &format!("missing: {why}")),
    }
}

/// Formats a million as `1m`, a hundred thousand as `100k`.
fn short(jobs: u64) -> String {
    if jobs < A_MILLION {
        format!("{}k", jobs / 1_000)
    } else {
        format!("{}m", jobs / A_MILLION)
    }
}

/// Opens the store; the last owner's thread may still be closing it.
///
/// # Errors
/// If it cannot be opened for another reason.
pub(super) fn reopened(dir: &Path) -> io::Result<EmbeddedStore> {
    loop {
        match EmbeddedStore::open(dir, Arc::new(SystemClock::new())) {
            Ok((store, _writer)) => return Ok(store),
            Err(why) if why.is_in_use() => clock::nap(),
            Err(why) => return Err(io::Error::other(why)),
        }
    }
}

/// Returns the bytes that this process has sent to the disk.
fn written() -> io::Result<u64> {
    let text = fs::read_to_string("/proc/self/io")?;
    let line = text.lines().find_map(|line| line.strip_prefix("write_bytes: "));
    line.and_then(|bytes| bytes.parse().ok())
        .ok_or_else(|| io::Error::other("the system does not report written bytes"))
}

fn size(dir: &Path) -> io::Result<u64> {
    let files = fs::read_dir(dir)?;
    files.map(|file| Ok(file?.metadata()?.len())).sum()
}

/// Number of jobs of the goals, unless stated otherwise.
const LIVES: u64 = 100_000;

/// Number of jobs of the goal about opening.
const A_MILLION: u64 = 1_000_000;
