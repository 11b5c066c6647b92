//! How a claim ends.
//!
//! Result, counts and the job's own end are one atomic step, so a crash leaves either a job that is
//! still claimed or one that is entirely over.
//!
//! A job that was cancelled while it was under way, or whose action took too long, is settled as it ended: a
//! call that was made is not unmade, and whoever asks later wants what came of it. It only does not begin
//! again.

use std::time::Duration;

use bytes::Bytes;
use outflow_core::{CongestionRule, WallTime};

use crate::claim::FencingToken;
use crate::name::Name;

/// The end of one claim.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settlement {
    /// Which claim.
    pub token: FencingToken,
    /// How it ended.
    pub end: JobEnd,
}

/// How a claim ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum JobEnd {
    /// The work is done.
    Done {
        /// How long it took.
        took: Duration,
        /// What came of it, if that is kept.
        result: Option<StoredResult>,
    },
    /// It failed, and may be tried again after a while if it has retries left; otherwise it is buried.
    /// Its tenant goes on meanwhile.
    Retry {
        /// After how long.
        after: Duration,
        /// What happened.
        words: String,
        /// What came of it, kept if it was the last time.
        result: Option<StoredResult>,
    },
    /// The same under a scheduler that puts off: it waits among those that found no room, as long as the rule
    /// says. That is a failure and no refusal.
    RetryPutOff {
        /// By what.
        by: Defer,
        /// What happened.
        words: String,
        /// What came of it, kept if it was the last time.
        result: Option<StoredResult>,
    },
    /// It failed for good, and is buried.
    Failed {
        /// What happened.
        words: String,
        /// What came of it, if that is kept.
        result: Option<StoredResult>,
    },
    /// The API refused it. It goes back to the head of its line, uses no retry, and its turn is given
    /// back to its tenant; nobody named by `park` goes before the time is over.
    Throttled {
        /// For how long.
        after: Duration,
        /// Who has to wait.
        park: CooldownScope,
    },
    /// It did not begin: it goes back to the head of its line as if it had not been claimed.
    Returned,
    /// It had begun, and whoever did it was told to stop: it goes back to the head of its line and uses no
    /// retry. The attempt counts, since the API may have seen it.
    Interrupted,
    /// The scheduler found no room for it and puts it off by what the rule says.
    PutOff(Defer),
}

/// Who waits after a refusal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CooldownScope {
    /// The tenant, in this lane.
    Tenant,
    /// Everybody in this lane.
    Lane,
}

/// How long a job that found no room is put off.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Defer {
    /// Always as long.
    Fixed(Duration),
    /// By how many of its tenant are put off already, at an even part of a rate among the tenants that
    /// have work.
    Formula {
        /// The shortest and the longest time.
        rule: CongestionRule,
        /// The rate of all tenants together, a second.
        global: u64,
    },
}

/// What is kept of an attempt for whoever asks later.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoredResult {
    /// What the work says of itself in a number: a status of HTTP.
    pub status: u16,
    /// The body, or whatever a handler made.
    pub body: Bytes,
    /// For how long.
    pub keep: Duration,
}

/// What a settlement did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SettleResult {
    /// The job is over, and its work done.
    Done,
    /// It is over and buried.
    Buried,
    /// It waits again.
    Waits,
    /// It was put off: for this long, with so many of its tenant, itself included, at this speed.
    PutOff {
        /// How long.
        backoff: Duration,
        /// How many are put off.
        non_ready: u64,
        /// The speed that was reckoned with.
        speed: u64,
    },
    /// It was cancelled while it was under way, and would have begun again: it is over instead.
    Cancelled,
    /// The claim was not theirs any more: nothing was changed.
    Fenced,
}

/// One finished job, as it is handed out afterwards.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JobOutcome {
    /// Where it stands among the outcomes: ask for those after it.
    pub place: u64,
    /// Its name.
    pub id: Name,
    /// For whom.
    pub tenant: Name,
    /// Whether the work was done.
    pub ended: JobStatus,
    /// When.
    pub at: WallTime,
    /// How often it was tried.
    pub attempts: u32,
    /// How often it was refused or put off.
    pub throttles: u32,
    /// What was kept of it.
    pub status: Option<u16>,
    /// What was kept of it.
    pub body: Option<Bytes>,
    /// What happened last, if it failed: as long as the outcome is known, whatever became of its letter.
    pub error: Option<String>,
}

/// How a job was over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum JobStatus {
    /// Done.
    Done,
    /// Failed for good, or too often.
    Failed,
    /// Too late to begin.
    Expired,
    /// Cancelled.
    Cancelled,
}
