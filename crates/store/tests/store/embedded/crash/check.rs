//! Checks of a store after a power cut, for any loss of unsynced writes.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use outflow_store::{
    ActionStore, ControlScope, DeadLetter, DeadLetterStore, EmbeddedStore, JobOutcome, JobQueue, JobStatus,
    StoreControl, SubmitReceipt, TenantStore,
};

use super::strace::Event;
use super::workload::{BATCH, CANCELLED_AT, actions, batch, work_to_the_end};
use crate::contract::{claim, name};
use crate::support::store_dir::{EmbeddedFixture, clock, within};

/// Results that the program received before the power cut.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReportedResults {
    /// Results that were on the disk by then.
    pub(crate) safe: BTreeSet<String>,
    /// Results that only the operating system had.
    pub(crate) late: BTreeSet<String>,
}

impl ReportedResults {
    /// Returns true if a result promises nothing about a power cut. A submission or an operator
    /// command is answered when it is safe; the end of a job is safe with the next sync of the
    /// journal.
    pub(crate) fn is_late(words: &str) -> bool {
        let late = ["done", "dead", "refused"];
        late.iter().any(|first| words.starts_with(first))
    }

    /// Records an event of the program or of its disk.
    pub(crate) fn record(&mut self, event: &Event) {
        match event {
            Event::Said(words) if Self::is_late(words) => {
                self.late.insert(words.clone());
            }
            Event::Said(words) => {
                self.safe.insert(words.clone());
            }
            Event::Synced(path) if path.to_string_lossy().ends_with("-wal") => {
                self.safe.append(&mut self.late);
            }
            Event::Forgotten(_) => self.late.clear(),
            _ => {}
        }
    }

    /// Returns the results that must survive a power cut.
    pub(crate) fn surviving(&self) -> Self {
        Self {
            safe: self.safe.clone(),
            late: BTreeSet::new(),
        }
    }

    fn contains(&self, words: &str) -> bool {
        self.safe.contains(words)
    }

    fn named<'a>(&'a self, word: &'a str) -> impl Iterator<Item = &'a str> {
        let reported = self.safe.iter().filter_map(|words| words.split_once(' '));
        reported.filter_map(move |(first, rest)| (first == word).then_some(rest))
    }
}

/// Opens an image and compares it with the reported results.
pub(crate) fn assert_image(dir: &Path, reported: &ReportedResults) {
    let time = clock();
    time.advance(Duration::from_mins(10));
    within(dir, time, async |fixture| {
        let store = &fixture.store;
        assert_eq!(store.audit().await.expect("counted"), 0, "as found");
        let batches = submitted(store, reported).await;
        if reported.contains("forgetting all") {
            let counts = store.job_counts().await.expect("counted");
            assert_eq!((counts.submitted(), counts.open()), (2_000, 0));
            return;
        }
        assert_ends_known(store, reported).await;
        assert_commands_kept(store, reported).await;
        assert_rest_can_be_done(fixture, &batches).await;
    });
}

/// Returns the batches in the store, each of them complete.
async fn submitted(store: &EmbeddedStore, reported: &ReportedResults) -> Vec<u32> {
    let counts = store.job_counts().await.expect("counted");
    let count = u32::try_from(counts.submitted()).expect("a few");
    assert_eq!(count % BATCH, 0, "a batch is there in part");
    // They were submitted one after the other.
    let batches: Vec<u32> = (0..count / BATCH).collect();
    for acked in reported.named("batch") {
        let acked = acked.parse().expect("a number");
        assert!(batches.contains(&acked), "batch {acked} of {count} jobs");
    }
    if !reported.contains("forgetting all") {
        let ends = outcomes(store).await;
        let is_cancelled = |id: &str| ends.get(id).is_some_and(|ends| ends.contains(&JobStatus::Cancelled));
        for round in &batches {
            let mut batch = batch(*round);
            // A cancellation frees the name in the transaction that ends the job.
            batch
                .jobs
                .retain(|job| !job.id.as_ref().is_some_and(|id| is_cancelled(id.as_str())));
            // Without jobs it would open its action again.
            if batch.jobs.is_empty() {
                continue;
            }
            let again = store.submit(batch).await.expect("answered");
            let known = |receipt: &SubmitReceipt| matches!(receipt, SubmitReceipt::Duplicate { .. });
            assert!(again.receipts.iter().all(known), "a name was lost");
        }
    }
    batches
}

/// Asserts that no job that ended before the last sync starts again.
async fn assert_ends_known(store: &EmbeddedStore, reported: &ReportedResults) {
    let outcomes = outcomes(store).await;
    let done = |id: &str| {
        let ends = outcomes.get(id).map_or(&[][..], Vec::as_slice);
        ends.contains(&JobStatus::Done)
    };
    for id in reported.named("done") {
        assert!(done(id), "{id} was done: {:?}", outcomes.get(id));
    }
    let dead: BTreeSet<String> = letters(store).await;
    for id in reported.named("dead").filter(|_| !reported.contains("reviving all")) {
        assert!(dead.contains(id), "{id} was a dead letter");
    }
}

/// Asserts that acknowledged operator commands are in effect.
async fn assert_commands_kept(store: &EmbeddedStore, reported: &ReportedResults) {
    if reported.contains("paused t3") && !reported.contains("resuming t3") {
        let report = store.tenant(&name("t3")).await.expect("read");
        assert!(report.expect("known").paused, "t3 was paused");
    }
    for action in reported.named("ended") {
        let report = store.action(&name(action)).await.expect("read");
        assert!(report.expect("known").stage.is_over(), "{action} has ended");
    }
    store.resume(&ControlScope::Tenant(name("t3"))).await.expect("on");
    if reported.contains("cancelled t4") {
        let of = |id: &str| id.trim_start_matches('b').split_once('-').map(|of| of.0.parse());
        for job in claim(store, 9_999).await {
            let round: u32 = of(job.id.as_str()).expect("a batch").expect("a number");
            assert!(
                job.tenant != name("t4") || round > CANCELLED_AT,
                "{} was cancelled",
                job.id
            );
        }
    }
}

/// Asserts that every open job can be claimed and done, once.
async fn assert_rest_can_be_done(fixture: &EmbeddedFixture, batches: &[u32]) {
    let store = &fixture.store;
    // Leases of dead sessions expire.
    fixture.clock.advance(Duration::from_hours(2));
    store.reap(9_999, 99).await.expect("reaped");
    work_to_the_end(fixture, |_| ()).await;
    let counts = store.job_counts().await.expect("counted");
    let all = u64::from(BATCH) * u64::try_from(batches.len()).expect("a few");
    assert_eq!((counts.open(), counts.submitted()), (0, all), "{counts:?}");
    assert_eq!(store.audit().await.expect("counted"), 0, "at the end");
    let (outcomes, dead) = (outcomes(store).await, letters(store).await);
    let mut done = 0;
    for (round, number) in batches.iter().flat_map(|of| (0..BATCH).map(move |n| (of, n))) {
        let id = format!("b{round}-{number}");
        let ends = outcomes.get(&id).expect("it has ended");
        // A requeued dead letter ended before.
        let last: Vec<_> = ends.iter().filter(|end| **end != JobStatus::Failed).collect();
        assert!(last.len() <= 1, "{id} ended twice: {ends:?}");
        assert_eq!(last.is_empty(), dead.contains(&id), "{id}: {ends:?}");
        done += u64::from(ends.contains(&JobStatus::Done));
    }
    assert_eq!(
        (counts.done, counts.dead),
        (done, u64::try_from(dead.len()).expect("few"))
    );
}

async fn outcomes(store: &EmbeddedStore) -> BTreeMap<String, Vec<JobStatus>> {
    let mut found = BTreeMap::<String, Vec<JobStatus>>::new();
    for action in actions() {
        let action = name(&action);
        if store.action(&action).await.expect("read").is_none() {
            continue;
        }
        let page = store.outcomes(&action, 0, 9_999).await;
        for JobOutcome { id, ended, .. } in page.expect("read") {
            found.entry(id.to_string()).or_default().push(ended);
        }
    }
    found
}

async fn letters(store: &EmbeddedStore) -> BTreeSet<String> {
    let letters = store.dead_letters(0, 9_999).await.expect("read");
    letters
        .into_iter()
        .map(|DeadLetter { id, .. }| id.to_string())
        .collect()
}
