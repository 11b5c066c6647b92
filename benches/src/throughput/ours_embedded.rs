//! Ours in a directory.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;

use outflow::SystemClock;
use outflow_store::{Batch, Embedded, JobStore, NewJob};
use tempfile::TempDir;
use tokio::sync::mpsc;

use super::contender::Contender;
use super::journal::home;
use super::life::timed;
use super::ours::{OURS, Ours, Shape};
use crate::clock;
use crate::figure::{Figure, Goal};
use crate::measure::{Plan, approx};
use crate::tasks::{self, Flavour};

/// Opens the store in a directory, with a thread that writes for it.
fn open(dir: &Path) -> io::Result<Embedded> {
    let (store, writer) =
        Embedded::open(dir, Arc::new(SystemClock::new())).map_err(io::Error::other)?;
    tasks::beside("writer", move || writer.run())?;
    Ok(store)
}

/// A fresh store that is used so, and the directory that goes with it.
///
/// # Errors
/// If the disk does not take it.
pub(super) fn fresh(shape: Shape) -> io::Result<InDirectory> {
    let home = home()?;
    let ours = Ours::new(open(home.path())?, Flavour::Current.runtime()?, shape)?;
    Ok(InDirectory { ours, home })
}

/// Ours in one shape.
pub(super) struct InDirectory {
    ours: Ours<Embedded>,
    home: TempDir,
}

impl Contender for InDirectory {
    fn name(&self) -> &'static str {
        OURS
    }

    fn enqueue(&mut self, jobs: u64) -> io::Result<()> {
        self.ours.enqueue(jobs)
    }

    fn drain(&mut self, jobs: u64) -> io::Result<()> {
        self.ours.drain(jobs)
    }
}

/// Many who submit one job each, and the next when it is kept.
pub(super) struct Singles(InDirectory);

impl Singles {
    /// In a fresh store.
    ///
    /// # Errors
    /// If the disk does not take it.
    pub(super) fn fresh() -> io::Result<Self> {
        fresh(Shape::USUAL).map(Self)
    }
}

impl Contender for Singles {
    fn name(&self) -> &'static str {
        OURS
    }

    fn enqueue(&mut self, jobs: u64) -> io::Result<()> {
        let ours = &self.0.ours;
        let (tell, mut told) = mpsc::unbounded_channel();
        ours.runtime.block_on(async {
            for (_, job) in (0..SUBMITTERS).zip(ours.jobs()) {
                let (store, tell) = (ours.store.clone(), tell.clone());
                tasks::start(one_by_one(store, job, jobs / SUBMITTERS, tell));
            }
            drop(tell);
            while let Some(kept) = told.recv().await {
                kept?;
            }
            Ok(())
        })
    }

    /// Only submission is compared.
    fn drain(&mut self, _jobs: u64) -> io::Result<()> {
        Ok(())
    }
}

async fn one_by_one(
    store: Embedded,
    job: NewJob,
    jobs: u64,
    tell: mpsc::UnboundedSender<io::Result<()>>,
) {
    for _ in 0..jobs {
        let kept = store.submit(Batch::of(vec![job.clone()])).await;
        if let Err(why) = kept {
            // Nobody hears it only if another's failure was heard first.
            let _heard = tell.send(Err(io::Error::other(why)));
        }
    }
}

/// What is promised about the directory itself: how much it holds and writes, and how soon it is open.
pub(super) fn figures(plan: Plan) -> Vec<Figure> {
    let jobs = if plan.is_thorough() {
        A_MILLION
    } else {
        100_000
    };
    directory(jobs).unwrap_or_else(|why| {
        let why = format!("missing: {why}");
        vec![Figure::missing("embedded_bytes_per_job", "", &why)]
    })
}

fn directory(jobs: u64) -> io::Result<Vec<Figure>> {
    let mut store = fresh(Shape::USUAL)?;
    let before = written()?;
    store.enqueue(jobs)?;
    // Whatever was put off for later belongs to these jobs as well.
    store.ours.store.end();
    let home = store.home;
    drop(store.ours);
    let opened = timed(|| reopened(home.path()).map(drop))?;
    let written = written()?.saturating_sub(before);
    let held = size(home.path())?;
    let per_job = |bytes| [approx(bytes) / approx(jobs)];
    // Fewer are opened sooner, and prove nothing.
    let soon = if jobs < A_MILLION {
        Goal::Shown
    } else {
        Goal::Own(0.25)
    };
    Ok(vec![
        Figure::alone("embedded_bytes_per_job", Goal::Own(150.0), &per_job(held)),
        Figure::alone(
            "embedded_submit_written_per_job",
            Goal::Shown,
            &per_job(written),
        ),
        Figure::alone(
            &format!("embedded_open_{}k_s", jobs / 1_000),
            soon,
            &[opened.as_secs_f64()],
        ),
    ])
}

/// The last owner's thread may still be closing it.
fn reopened(dir: &Path) -> io::Result<Embedded> {
    loop {
        match Embedded::open(dir, Arc::new(SystemClock::new())) {
            Ok((store, _writer)) => return Ok(store),
            Err(why) if why.is_in_use() => clock::nap(),
            Err(why) => return Err(io::Error::other(why)),
        }
    }
}

/// Bytes that this process has sent to the disk.
fn written() -> io::Result<u64> {
    let text = fs::read_to_string("/proc/self/io")?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("write_bytes: "));
    line.and_then(|bytes| bytes.parse().ok())
        .ok_or_else(|| io::Error::other("the system does not tell what was written"))
}

fn size(dir: &Path) -> io::Result<u64> {
    let files = fs::read_dir(dir)?;
    files.map(|file| Ok(file?.metadata()?.len())).sum()
}

const SUBMITTERS: u64 = 64;

/// What the promise about opening is made for.
const A_MILLION: u64 = 1_000_000;
