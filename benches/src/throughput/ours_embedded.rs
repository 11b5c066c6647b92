//! Ours in a directory.

use std::io;
use std::path::Path;
use std::sync::Arc;

use outflow::SystemClock;
use outflow_store::{SubmitBatch, EmbeddedStore, JobQueue, NewJob};
use tempfile::TempDir;
use tokio::sync::mpsc;

use super::contender::Contender;
use super::journal::home;
use super::ours::{OURS, Ours, Shape};
use crate::tasks::{self, Flavour};

/// Opens the store in a directory, with a thread that writes for it.
fn open(dir: &Path) -> io::Result<EmbeddedStore> {
    let (store, writer) =
        EmbeddedStore::open(dir, Arc::new(SystemClock::new())).map_err(io::Error::other)?;
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
    ours: Ours<EmbeddedStore>,
    home: TempDir,
}

impl InDirectory {
    /// Ends the store, with all that it has put off. Its thread may still be closing it.
    pub(super) fn end(self) -> TempDir {
        self.ours.store.end();
        self.home
    }
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
    store: EmbeddedStore,
    job: NewJob,
    jobs: u64,
    tell: mpsc::UnboundedSender<io::Result<()>>,
) {
    for _ in 0..jobs {
        let kept = store.submit(SubmitBatch::of(vec![job.clone()])).await;
        if let Err(why) = kept {
            // Nobody hears it only if another's failure was heard first.
            let _heard = tell.send(Err(io::Error::other(why)));
        }
    }
}

const SUBMITTERS: u64 = 64;
