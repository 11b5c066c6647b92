//! Ours in a directory.

use std::io;
use std::path::Path;
use std::sync::Arc;

use outflow::SystemClock;
use outflow_store::{EmbeddedStore, JobQueue, NewJob, SubmitBatch};
use tempfile::TempDir;
use tokio::sync::mpsc;

use super::contender::Contender;
use super::journal::home;
use super::ours::{OURS, Ours, Shape};
use crate::tasks::{self, Flavour};

/// Opens the store in a directory, with its writer thread.
fn open(dir: &Path) -> io::Result<EmbeddedStore> {
    let (store, writer) = EmbeddedStore::open(dir, Arc::new(SystemClock::new())).map_err(io::Error::other)?;
    tasks::spawn_thread("writer", move || writer.run())?;
    Ok(store)
}

/// Creates a store with this usage, and its directory.
///
/// # Errors
/// If the disk fails.
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
    /// Closes the store with all deferred writes. Its thread may still be closing it.
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

/// Many submitters of one job each; each submits the next when it is stored.
pub(super) struct Singles(InDirectory);

impl Singles {
    /// Creates it in a new store.
    ///
    /// # Errors
    /// If the disk fails.
    pub(super) fn fresh() -> io::Result<Self> {
        fresh(Shape::DEFAULT).map(Self)
    }
}

impl Contender for Singles {
    fn name(&self) -> &'static str {
        OURS
    }

    fn enqueue(&mut self, jobs: u64) -> io::Result<()> {
        let ours = &self.0.ours;
        let (sender, mut receiver) = mpsc::unbounded_channel();
        ours.runtime.block_on(async {
            for (_, job) in (0..SUBMITTERS).zip(ours.jobs()) {
                let (store, sender) = (ours.store.clone(), sender.clone());
                tasks::start(one_by_one(store, job, jobs / SUBMITTERS, sender));
            }
            drop(sender);
            while let Some(kept) = receiver.recv().await {
                kept?;
            }
            Ok(())
        })
    }

    /// Does nothing: only submission is compared.
    fn drain(&mut self, _jobs: u64) -> io::Result<()> {
        Ok(())
    }
}

async fn one_by_one(store: EmbeddedStore, job: NewJob, jobs: u64, sender: mpsc::UnboundedSender<io::Result<()>>) {
    for _ in 0..jobs {
        let kept = store.submit(SubmitBatch::from_jobs(vec![job.clone()])).await;
        if let Err(why) = kept {
            // The receiver is gone only after another failure.
            let _sent = sender.send(Err(io::Error::other(why)));
        }
    }
}

const SUBMITTERS: u64 = 64;
