//! Ours on any store: jobs are submitted, claimed and settled by the batch.
//!
//! The store alone, without the engine, because the other queues do nothing with a job either.

use std::io;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::try_join_all;
use outflow_store::{
    AllowAll, ClaimRequest, ClaimedJob, JobEnd, JobStore, Name, NewJob, SettleResult, Settlement, SubmitBatch,
    SubmitReceipt,
};
use tokio::runtime::Runtime;

use super::contender::{Contender, RECORD};

/// Name of the contender that has the goals.
pub(super) const OURS: &str = "Outflow";

/// Usage of a store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Shape {
    /// Jobs of one submission, one claim and one settlement.
    pub(super) batch: usize,
    pub(super) tenants: usize,
}

impl Shape {
    /// Default of the goals: a hundred at a time, ten tenants.
    pub(super) const DEFAULT: Self = Self {
        batch: 100,
        tenants: 10,
    };
}

/// A store, and the tenants of its jobs.
pub(super) struct Ours<S> {
    pub(super) store: S,
    pub(super) runtime: Runtime,
    batch: usize,
    tenants: Vec<Name>,
    lane: Name,
    session: Name,
}

impl<S: JobStore> Ours<S> {
    /// Creates a contender on this store.
    ///
    /// # Errors
    /// If a name is invalid.
    pub(super) fn new(store: S, runtime: Runtime, shape: Shape) -> io::Result<Self> {
        let named = |text: &str| Name::new(text).map_err(io::Error::other);
        let tenants = (0..shape.tenants).map(|number| named(&format!("tenant-{number}")));
        Ok(Self {
            store,
            runtime,
            batch: shape.batch,
            tenants: tenants.collect::<io::Result<_>>()?,
            lane: named("bench")?,
            session: named("session")?,
        })
    }

    /// Returns one job of each tenant in rotation, without end.
    pub(super) fn jobs(&self) -> impl Iterator<Item = NewJob> {
        let record = Bytes::from(vec![b'x'; RECORD]);
        let tenants = self.tenants.iter().cycle();
        tenants.map(move |tenant| NewJob::new(tenant.clone(), self.lane.clone(), record.clone()))
    }

    async fn submit(&self, jobs: u64) -> io::Result<()> {
        let mut all = self.jobs().take(whole(jobs)?);
        loop {
            let batch: Vec<_> = all.by_ref().take(self.batch).collect();
            if batch.is_empty() {
                return Ok(());
            }
            let taken = self.store.submit(SubmitBatch::from_jobs(batch)).await;
            let mut receipts = taken.map_err(io::Error::other)?.receipts.into_iter();
            if !receipts.all(|receipt| matches!(receipt, SubmitReceipt::Accepted { .. })) {
                return Err(io::Error::other("a job was not accepted"));
            }
        }
    }

    /// Runs concurrent submitters; each submits one job, and the next when it is stored.
    ///
    /// # Errors
    /// If a job is not accepted.
    pub(super) fn enqueue_singly(&self, submitters: u64, each: u64) -> io::Result<()> {
        let jobs = self.jobs().take(whole(submitters)?);
        let all = jobs.map(|job| self.one_by_one(job, each));
        self.runtime.block_on(try_join_all(all)).map(drop)
    }

    async fn one_by_one(&self, job: NewJob, jobs: u64) -> io::Result<()> {
        for _ in 0..jobs {
            let kept = self.store.submit(SubmitBatch::from_jobs(vec![job.clone()])).await;
            kept.map_err(io::Error::other)?;
        }
        Ok(())
    }

    async fn finish(&self, jobs: u64) -> io::Result<()> {
        let mut left = whole(jobs)?;
        while left > 0 {
            let claims = self.store.claim(self.ask(), &mut AllowAll).await;
            let claimed = claims.map_err(io::Error::other)?.jobs;
            if claimed.is_empty() {
                return Err(io::Error::other("jobs are missing"));
            }
            let ends = claimed.iter().map(done).collect();
            let settled = self.store.settle(&self.session, ends).await;
            let over = settled.map_err(io::Error::other)?.into_iter();
            left -= over.filter(|settled| *settled == SettleResult::Done).count();
        }
        Ok(())
    }

    fn ask(&self) -> ClaimRequest {
        ClaimRequest {
            lane: self.lane.clone(),
            session: self.session.clone(),
            max: self.batch,
            lease: Duration::from_mins(1),
            recoveries: 2,
            limits: None,
            cost: None,
        }
    }
}

impl<S: JobStore> Contender for Ours<S> {
    fn name(&self) -> &'static str {
        OURS
    }

    fn enqueue(&mut self, jobs: u64) -> io::Result<()> {
        self.runtime.block_on(self.submit(jobs))
    }

    fn drain(&mut self, jobs: u64) -> io::Result<()> {
        self.runtime.block_on(self.finish(jobs))
    }
}

fn done(job: &ClaimedJob) -> Settlement {
    Settlement {
        token: job.token,
        end: JobEnd::Done {
            took: Duration::ZERO,
            result: None,
        },
        arrived: None,
    }
}

fn whole(count: u64) -> io::Result<usize> {
    usize::try_from(count).map_err(io::Error::other)
}
