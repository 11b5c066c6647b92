//! Interleavings inside of the writer. The tests poll the futures of a store by hand, one after the other.
//! The writer reads the clock between a commit and its publication, and the clock of these tests runs
//! another step at that point.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use outflow_core::{ClockPair, ManualClock, Nanos};
use outflow_sync::Mutex;

use super::*;
use crate::{
    AllowAll, ClaimBatch, ClaimRequest, ClaimedJob, DeadLetterFilter, DeadLetterStore, JobCounts, JobEnd, JobQueue,
    Name, NewJob, Settlement, StoreControl, SubmitBatch, TenantStore,
};

type Act<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Polls a future once.
fn poll<T>(act: &mut Act<T>) -> Option<T> {
    let mut context = Context::from_waker(Waker::noop());
    match act.as_mut().poll(&mut context) {
        Poll::Ready(done) => Some(done),
        Poll::Pending => None,
    }
}

/// A manual clock that may run a step when it is read.
#[derive(Default)]
struct SteppedClock {
    time: ManualClock,
    step: Mutex<Option<ScriptedStep>>,
}

/// A future that is polled once, when the clock is read for the last of these times.
struct ScriptedStep {
    readings: u32,
    act: Act<()>,
}

impl SteppedClock {
    fn schedule(&self, readings: u32, act: Act<()>) {
        *self.step.lock() = Some(ScriptedStep { readings, act });
    }

    fn run_step(&self) {
        let step = self.step.lock().take();
        let Some(mut step) = step else {
            return;
        };
        step.readings -= 1;
        if step.readings > 0 {
            *self.step.lock() = Some(step);
        } else {
            // With the lock free: the step reads the clock, too.
            assert!(poll(&mut step.act).is_none(), "it is to be written");
        }
    }
}

impl Clock for SteppedClock {
    fn now(&self) -> Nanos {
        self.time.now()
    }

    fn wall(&self) -> WallTime {
        self.time.wall()
    }

    fn moment(&self) -> ClockPair {
        self.run_step();
        self.time.moment()
    }
}

/// A store and its writer, both polled by the test.
struct StoreUnderTest {
    store: EmbeddedStore,
    writer: Act<()>,
    clock: Arc<SteppedClock>,
}

impl StoreUnderTest {
    fn open(dir: &Path) -> Self {
        let clock = Arc::new(SteppedClock::default());
        let (store, writer) = EmbeddedStore::open(dir, clock.clone()).expect("a store");
        let writer = Box::pin(writer.run_here());
        Self { store, writer, clock }
    }

    /// Writes all pending changes.
    fn write(&mut self) {
        assert!(poll(&mut self.writer).is_none(), "the store was ended");
    }

    fn finish<T>(&mut self, mut act: Act<T>) -> T {
        // Every step takes a few cycles of the writer.
        for _ in 0..100 {
            if let Some(done) = poll(&mut act) {
                return done;
            }
            self.write();
        }
        panic!("it does not end");
    }

    fn submit(&self, batch: SubmitBatch) -> Act<()> {
        let store = self.store.clone();
        Box::pin(async move {
            store.submit(batch).await.expect("submitted");
        })
    }

    fn sweep(&self, dead_before: WallTime) -> Act<()> {
        let store = self.store.clone();
        Box::pin(async move {
            store.collect_garbage(dead_before).await.expect("collected");
        })
    }

    fn claim(&mut self, most: usize) -> ClaimBatch {
        let store = self.store.clone();
        let request = ClaimRequest {
            lane: name("mail"),
            session: name("w"),
            max: most,
            lease: Duration::from_hours(9),
            recoveries: 2,
            limits: None,
            cost: None,
        };
        let claims = self.finish(Box::pin(async move { store.claim(request, &mut AllowAll).await }));
        claims.expect("claimed")
    }

    fn settle(&mut self, jobs: &[ClaimedJob], end: &JobEnd) {
        let store = self.store.clone();
        let ends = jobs.iter().map(|job| Settlement {
            token: job.token,
            end: end.clone(),
            arrived: None,
        });
        let ends = ends.collect();
        let settled = self.finish(Box::pin(async move { store.settle(&name("w"), ends).await }));
        settled.expect("settled");
    }

    fn counts(&mut self) -> JobCounts {
        let store = self.store.clone();
        let counts = self.finish(Box::pin(async move { store.job_counts().await }));
        counts.expect("counted")
    }

    fn assert_balanced(&mut self) {
        let store = self.store.clone();
        let audit = self.finish(Box::pin(async move { store.audit().await }));
        assert_eq!(audit.expect("counted"), 0);
    }

    /// Makes a tenant that is idle for longer than the store keeps it, and starts a collection that is
    /// about to find it.
    fn idle_tenant(&mut self) -> Act<()> {
        let submitted = self.submit(batch(1));
        self.finish(submitted);
        let jobs = self.claim(1).jobs;
        self.settle(&jobs, &done());
        let noticed = self.sweep(LONG_AGO);
        self.finish(noticed);
        self.clock.time.advance(Duration::from_hours(2));
        let mut sweep = self.sweep(LONG_AGO);
        assert!(poll(&mut sweep).is_none(), "it waits for the writer");
        self.write();
        sweep
    }
}

fn name(text: &str) -> Name {
    text.parse().expect("a name")
}

fn batch(jobs: usize) -> SubmitBatch {
    let job = NewJob::new(name("a"), name("mail"), "x".into());
    SubmitBatch::from_jobs(vec![job; jobs])
}

fn done() -> JobEnd {
    JobEnd::Done {
        took: Duration::ZERO,
        result: None,
    }
}

/// Older than any dead letter.
const LONG_AGO: WallTime = WallTime::from_unix_secs(0);

// The writer reads the clock when it decides about the batch and when the batch is on the disk. The collection
// looks for idle tenants in between, and the tenant is not idle any more.
#[test]
fn garbage_collection_keeps_a_tenant_whose_jobs_are_being_written() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut test = StoreUnderTest::open(dir.path());
    let sweep = test.idle_tenant();
    let mut submit = test.submit(batch(3));
    assert!(poll(&mut submit).is_none());
    test.clock.schedule(2, sweep);
    test.write();
    assert!(poll(&mut submit).is_some(), "it is on the disk");
    test.write();
    assert_eq!(test.claim(1).jobs.len(), 1, "acknowledged");
    test.assert_balanced();
    drop(test);
    let mut test = StoreUnderTest::open(dir.path());
    assert_eq!(test.counts().open(), 3, "and after a restart");
    test.assert_balanced();
}

// One transaction writes the batch and removes idle tenants.
#[test]
fn a_batch_of_a_tenant_that_is_being_removed_is_accepted() {
    for sweeps_first in [false, true] {
        let dir = tempfile::tempdir().expect("a directory");
        let mut test = StoreUnderTest::open(dir.path());
        let mut sweep = test.idle_tenant();
        let mut submit = test.submit(batch(3));
        let mut acts = [&mut submit, &mut sweep];
        if sweeps_first {
            acts.reverse();
        }
        for act in acts {
            assert!(poll(act).is_none(), "it is to be written");
        }
        test.write();
        assert!(poll(&mut submit).is_some() && poll(&mut sweep).is_some());
        assert_eq!(test.claim(1).jobs.len(), 1);
        test.assert_balanced();
        drop(test);
        let mut test = StoreUnderTest::open(dir.path());
        assert_eq!(test.counts().open(), 3);
        test.assert_balanced();
    }
}

// The caller of the purge leaves before it is written: the letter is counted as failed and is still on the disk
// when the collection starts.
#[test]
fn garbage_collection_does_not_count_a_purged_letter_again() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut test = StoreUnderTest::open(dir.path());
    let submitted = test.submit(batch(1));
    test.finish(submitted);
    let jobs = test.claim(1).jobs;
    let failed = JobEnd::Failed {
        message: "no".to_owned(),
        result: None,
    };
    test.settle(&jobs, &failed);
    let store = test.store.clone();
    let mut purge: Act<_> = Box::pin(async move { store.purge(&DeadLetterFilter::All).await });
    assert!(poll(&mut purge).is_none(), "it waits for the writer");
    test.write();
    assert!(poll(&mut purge).is_none(), "it is to be written");
    drop(purge);
    let sweep = test.sweep(WallTime::from_unix_secs(u32::MAX.into()));
    test.finish(sweep);
    let counts = test.counts();
    assert_eq!((counts.dead, counts.failed), (0, 1));
    test.assert_balanced();
}

// 9,000 jobs expired: a claim ends some four thousand at most, and reports that there is more to do.
#[test]
fn a_claim_expires_at_most_the_jobs_that_it_may_skip() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut test = StoreUnderTest::open(dir.path());
    let mut late = batch(9_000);
    let deadline = test.clock.wall().saturating_add(Duration::from_secs(1));
    for job in &mut late.jobs {
        job.deadline = Some(deadline);
    }
    let submitted = test.submit(late);
    test.finish(submitted);
    test.clock.time.advance(Duration::from_secs(2));
    let first = test.claim(1);
    assert!(first.expired < 5_000, "{}", first.expired);
    assert_eq!(first.next, Some(Duration::from_millis(1)));
    let rest = test.claim(1).expired + test.claim(1).expired;
    assert_eq!(first.expired + rest, 9_000);
    test.assert_balanced();
}

// A job ends, and a reset clears its tenant's counts before that is written: one transaction has both.
#[test]
fn counts_that_a_reset_cleared_stay_cleared_after_a_restart() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut test = StoreUnderTest::open(dir.path());
    let submitted = test.submit(batch(2));
    test.finish(submitted);
    let jobs = test.claim(2).jobs;
    let (store, end) = (test.store.clone(), done());
    let ends = jobs.iter().take(1).map(|job| Settlement {
        token: job.token,
        end: end.clone(),
        arrived: None,
    });
    let ends = ends.collect();
    let mut settle: Act<_> = Box::pin(async move { store.settle(&name("w"), ends).await });
    assert!(poll(&mut settle).is_none(), "it is to be written");
    let store = test.store.clone();
    let mut reset: Act<_> = Box::pin(async move { store.reset_congestion(&name("a")).await });
    assert!(poll(&mut reset).is_none(), "with it");
    test.write();
    assert!(poll(&mut settle).is_some() && poll(&mut reset).is_some());
    drop(test);
    let mut test = StoreUnderTest::open(dir.path());
    let store = test.store.clone();
    let report = test.finish(Box::pin(async move { store.tenant(&name("a")).await }));
    let counts = report.expect("read").expect("known").counts;
    assert_eq!((counts.done, counts.open()), (0, 1));
    test.assert_balanced();
}

// The audit counts five thousand rows in pieces: changes between two pieces do not count, and do not wait.
#[test]
fn an_audit_blocks_no_caller_and_counts_one_instant() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut test = StoreUnderTest::open(dir.path());
    let submitted = test.submit(batch(5_000));
    test.finish(submitted);
    let store = test.store.clone();
    let mut audit: Act<_> = Box::pin(async move { store.audit().await });
    assert!(poll(&mut audit).is_none(), "it waits for the writer");
    test.write();
    assert!(poll(&mut audit).is_none(), "a first piece");
    let jobs = test.claim(3).jobs;
    test.settle(&jobs, &done());
    let submitted = test.submit(batch(7));
    test.finish(submitted);
    let difference = test.finish(audit);
    assert_eq!(difference.expect("counted"), 0);
    test.assert_balanced();
}

// One tenant is idle for long and one has work: memory and disk lose the queue of the first.
#[test]
fn removing_a_tenant_removes_its_queues() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut test = StoreUnderTest::open(dir.path());
    let sweep = test.idle_tenant();
    let mut other = batch(1);
    other.jobs[0].tenant = name("b");
    let submitted = test.submit(other);
    test.finish(submitted);
    test.finish(sweep);
    let state = test.store.shared.lock();
    assert_eq!(state.tenants.iter().count(), 1);
    assert_eq!(state.lanes.queue_count(), 1);
    let queues = state
        .reader
        .query_row("SELECT count(*) FROM line", [], |row| row.get(0));
    assert_eq!(queues, Ok(1));
    drop(state);
    test.assert_balanced();
}
