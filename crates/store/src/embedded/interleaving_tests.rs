//! What meets in the writer, from inside. A store whose futures are polled by hand does one thing after the
//! other, and its clock, which the writer reads between a commit and its publication, lets something else
//! happen right there.

use std::pin::Pin;
use std::sync::PoisonError;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use outflow_core::{ClockPair, ManualClock, Nanos};

use super::*;
use crate::{
    AllowAll, ClaimBatch, ClaimRequest, ClaimedJob, DeadLetterFilter, DeadLetterStore, JobCounts,
    JobEnd, JobQueue, Name, NewJob, Settlement, StoreControl, SubmitBatch, TenantStore,
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

/// A time that moves when it is told to, and whose reader may meet somebody.
#[derive(Default)]
struct SteppedClock {
    time: ManualClock,
    guest: Mutex<Option<ScriptedStep>>,
}

/// What goes one step on, and no further, when the clock is read for the last of so many times.
struct ScriptedStep {
    readings: u32,
    act: Act<()>,
}

impl SteppedClock {
    fn invite(&self, readings: u32, act: Act<()>) {
        *self.guest.lock().expect("a guest") = Some(ScriptedStep { readings, act });
    }

    fn meet(&self) {
        let guest = self
            .guest
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        let Some(mut guest) = guest else {
            return;
        };
        guest.readings -= 1;
        if guest.readings > 0 {
            *self.guest.lock().unwrap_or_else(PoisonError::into_inner) = Some(guest);
        } else {
            // With the lock free: whoever goes on reads the clock, too.
            assert!(poll(&mut guest.act).is_none(), "it is to be written");
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
        self.meet();
        self.time.moment()
    }
}

/// A store and its writer, each of which goes on when it is polled.
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
        Self {
            store,
            writer,
            clock,
        }
    }

    /// Writes what is pending.
    fn write(&mut self) {
        assert!(poll(&mut self.writer).is_none(), "the store was ended");
    }

    fn finish<T>(&mut self, mut act: Act<T>) -> T {
        // A few cycles of the writer are all that anything takes.
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

    fn tidy(&self, dead_before: WallTime) -> Act<()> {
        let store = self.store.clone();
        Box::pin(async move {
            store.collect_garbage(dead_before).await.expect("tidied");
        })
    }

    fn claim(&mut self, most: usize) -> ClaimBatch {
        let store = self.store.clone();
        let ask = ClaimRequest {
            lane: name("mail"),
            session: name("w"),
            most,
            lease: Duration::from_hours(9),
            recoveries: 2,
            plan: None,
        };
        let claims = self.finish(Box::pin(
            async move { store.claim(ask, &mut AllowAll).await },
        ));
        claims.expect("claimed")
    }

    fn settle(&mut self, jobs: &[ClaimedJob], end: &JobEnd) {
        let store = self.store.clone();
        let ends = jobs.iter().map(|job| Settlement {
            token: job.token,
            end: end.clone(),
        });
        let ends = ends.collect();
        let settled = self.finish(Box::pin(
            async move { store.settle(&name("w"), ends).await },
        ));
        settled.expect("settled");
    }

    fn tally(&mut self) -> JobCounts {
        let store = self.store.clone();
        let tally = self.finish(Box::pin(async move { store.job_counts().await }));
        tally.expect("counted")
    }

    fn is_balanced(&mut self) {
        let store = self.store.clone();
        let recount = self.finish(Box::pin(async move { store.audit().await }));
        assert_eq!(recount.expect("counted"), 0);
    }

    /// A tenant that had a job and has had none for longer than it is remembered, and a tidying that is
    /// about to look for such.
    fn idle_tenant(&mut self) -> Act<()> {
        let submitted = self.submit(batch(1));
        self.finish(submitted);
        let jobs = self.claim(1).jobs;
        self.settle(&jobs, &done());
        let noticed = self.tidy(LONG_AGO);
        self.finish(noticed);
        self.clock.time.advance(Duration::from_hours(2));
        let mut tidy = self.tidy(LONG_AGO);
        assert!(poll(&mut tidy).is_none(), "it waits for the writer");
        self.write();
        tidy
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

/// No letter is as old.
const LONG_AGO: WallTime = WallTime::from_unix_secs(0);

// The clock is read once when the batch is decided and once when it is on the disk: the tidying looks for idle
// tenants in between, and the tenant is none any more.
#[test]
fn a_tenant_whose_jobs_are_being_written_is_not_forgotten() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut room = StoreUnderTest::open(dir.path());
    let tidy = room.idle_tenant();
    let mut submit = room.submit(batch(3));
    assert!(poll(&mut submit).is_none());
    room.clock.invite(2, tidy);
    room.write();
    assert!(poll(&mut submit).is_some(), "it is on the disk");
    room.write();
    assert_eq!(room.claim(1).jobs.len(), 1, "acknowledged");
    room.is_balanced();
    drop(room);
    let mut room = StoreUnderTest::open(dir.path());
    assert_eq!(room.tally().open(), 3, "and after a restart");
    room.is_balanced();
}

// The batch is written first, and what was idle before it is looked for in the same transaction.
#[test]
fn a_tenant_that_comes_back_while_it_is_forgotten_is_taken() {
    for tidies_first in [false, true] {
        let dir = tempfile::tempdir().expect("a directory");
        let mut room = StoreUnderTest::open(dir.path());
        let mut tidy = room.idle_tenant();
        let mut submit = room.submit(batch(3));
        let mut acts = [&mut submit, &mut tidy];
        if tidies_first {
            acts.reverse();
        }
        for act in acts {
            assert!(poll(act).is_none(), "it is to be written");
        }
        room.write();
        assert!(poll(&mut submit).is_some() && poll(&mut tidy).is_some());
        assert_eq!(room.claim(1).jobs.len(), 1);
        room.is_balanced();
        drop(room);
        let mut room = StoreUnderTest::open(dir.path());
        assert_eq!(room.tally().open(), 3);
        room.is_balanced();
    }
}

// Whoever asked for the purge went away before it was written: the letter is counted as failed and is still on
// the disk when the tidying begins.
#[test]
fn a_letter_that_is_on_its_way_out_is_not_tidied_away_once_more() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut room = StoreUnderTest::open(dir.path());
    let submitted = room.submit(batch(1));
    room.finish(submitted);
    let jobs = room.claim(1).jobs;
    let failed = JobEnd::Failed {
        words: "no".to_owned(),
        result: None,
    };
    room.settle(&jobs, &failed);
    let store = room.store.clone();
    let mut purge: Act<_> = Box::pin(async move { store.purge(&DeadLetterFilter::All).await });
    assert!(poll(&mut purge).is_none(), "it waits for the writer");
    room.write();
    assert!(poll(&mut purge).is_none(), "it is to be written");
    drop(purge);
    let tidy = room.tidy(WallTime::from_unix_secs(u32::MAX.into()));
    room.finish(tidy);
    let tally = room.tally();
    assert_eq!((tally.dead, tally.failed), (0, 1));
    room.is_balanced();
}

// 9,000 are too late: a claim looks at some four thousand at most, and says that there is more to look at.
#[test]
fn a_claim_ends_no_more_late_jobs_than_it_passes_over() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut room = StoreUnderTest::open(dir.path());
    let mut late = batch(9_000);
    let deadline = room.clock.wall().saturating_add(Duration::from_secs(1));
    for job in &mut late.jobs {
        job.deadline = Some(deadline);
    }
    let submitted = room.submit(late);
    room.finish(submitted);
    room.clock.time.advance(Duration::from_secs(2));
    let first = room.claim(1);
    assert!(first.expired < 5_000, "{}", first.expired);
    assert_eq!(first.next, Some(Duration::from_millis(1)));
    let rest = room.claim(1).expired + room.claim(1).expired;
    assert_eq!(first.expired + rest, 9_000);
    room.is_balanced();
}

// A job ends, and its tenant's counts begin anew before that is written: both are in one transaction.
#[test]
fn what_a_reset_forgot_is_not_back_after_a_restart() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut room = StoreUnderTest::open(dir.path());
    let submitted = room.submit(batch(2));
    room.finish(submitted);
    let jobs = room.claim(2).jobs;
    let (store, end) = (room.store.clone(), done());
    let ends = jobs.iter().take(1).map(|job| Settlement {
        token: job.token,
        end: end.clone(),
    });
    let ends = ends.collect();
    let mut settle: Act<_> = Box::pin(async move { store.settle(&name("w"), ends).await });
    assert!(poll(&mut settle).is_none(), "it is to be written");
    let store = room.store.clone();
    let mut reset: Act<_> = Box::pin(async move { store.reset_congestion(&name("a")).await });
    assert!(poll(&mut reset).is_none(), "with it");
    room.write();
    assert!(poll(&mut settle).is_some() && poll(&mut reset).is_some());
    drop(room);
    let mut room = StoreUnderTest::open(dir.path());
    let store = room.store.clone();
    let report = room.finish(Box::pin(async move { store.tenant(&name("a")).await }));
    let tally = report.expect("read").expect("known").tally;
    assert_eq!((tally.done, tally.open()), (0, 1));
    room.is_balanced();
}

// Five thousand rows are counted in pieces: what happens between two of them is not counted, and does not wait.
#[test]
fn a_recount_holds_nobody_up_and_counts_one_instant() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut room = StoreUnderTest::open(dir.path());
    let submitted = room.submit(batch(5_000));
    room.finish(submitted);
    let store = room.store.clone();
    let mut recount: Act<_> = Box::pin(async move { store.audit().await });
    assert!(poll(&mut recount).is_none(), "it waits for the writer");
    room.write();
    assert!(poll(&mut recount).is_none(), "a first piece");
    let jobs = room.claim(3).jobs;
    room.settle(&jobs, &done());
    let submitted = room.submit(batch(7));
    room.finish(submitted);
    let difference = room.finish(recount);
    assert_eq!(difference.expect("counted"), 0);
    room.is_balanced();
}

// One tenant was idle for long and one has work: the line of the first goes from memory and from the disk.
#[test]
fn tenants_that_are_forgotten_take_their_lines_with_them() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut room = StoreUnderTest::open(dir.path());
    let tidy = room.idle_tenant();
    let mut other = batch(1);
    other.jobs[0].tenant = name("b");
    let submitted = room.submit(other);
    room.finish(submitted);
    room.finish(tidy);
    let memory = room.store.shared.lock();
    assert_eq!((memory.tenants.len(), memory.places.len()), (1, 1));
    let lines = memory
        .reader
        .query_row("SELECT count(*) FROM line", [], |row| row.get(0));
    assert_eq!(lines, Ok(1));
    drop(memory);
    room.is_balanced();
}
