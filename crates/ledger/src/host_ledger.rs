//! The ledger of a host: all accounts of one directory, served by one thread.
//!
//! A renewal waits for a lock and reads a file, so it never runs on a caller's thread. The thread also reads
//! the generation of shared facts of accounts in use, 16 bytes every 20 ms: that is how a process hears of a
//! `Retry-After` that another one got.

use std::collections::HashMap;
use std::fmt;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Weak};
use std::time::Duration;

use outflow_core::{Clock, FactsObserver, LeaseAnswer, LeaseRequest, LedgerError, Nanos, QuotaLedger, RenewalReply};

use crate::account_file::AccountFile;
use crate::checkpoint::CheckpointWriter;
use crate::host_timeline::HostTimeline;
use crate::ledger_dir::{LedgerDir, OpenLedgerError};
use crate::ledger_thread;

/// A clock that the threads of a ledger share.
type SharedClock = Arc<dyn Clock + Send + Sync>;

/// Accounts of one host.
///
/// Clones share one thread, which ends once all are dropped.
#[derive(Clone)]
pub struct HostLedger {
    dir: LedgerDir,
    requests: Sender<LedgerRequest>,
}

enum LedgerRequest {
    Renew {
        account: String,
        request: Arc<LeaseRequest>,
        reply: RenewalReply,
    },
    Watch {
        account: String,
        observer: Weak<dyn FactsObserver>,
    },
    /// A reply once everything before it is done.
    Flush(Sender<()>),
}

impl HostLedger {
    /// Opens the accounts of a directory. All processes of a host that open it share them.
    ///
    /// # Errors
    /// If the system gives no thread.
    pub fn open(dir: LedgerDir, clock: SharedClock) -> Result<Self, OpenLedgerError> {
        let (requests, queue) = channel();
        let checkpoints = CheckpointWriter::start().map_err(|error| OpenLedgerError::no_thread(&dir, error))?;
        let mut worker = LedgerWorker {
            dir: dir.clone(),
            clock,
            timeline: HostTimeline::of_host(),
            checkpoints,
            accounts: HashMap::new(),
            observers: Vec::new(),
        };
        let started = ledger_thread::start("outflow-ledger", move || worker.run(&queue));
        started.map_err(|error| OpenLedgerError::no_thread(&dir, error))?;
        Ok(Self { dir, requests })
    }

    /// Returns its directory.
    pub const fn dir(&self) -> &LedgerDir {
        &self.dir
    }
}

impl QuotaLedger for HostLedger {
    fn renew(&self, account: &str, request: Arc<LeaseRequest>, reply: RenewalReply) {
        let sent = self.requests.send(LedgerRequest::Renew {
            account: account.to_owned(),
            request,
            reply,
        });
        if let Err(unsent) = sent
            && let LedgerRequest::Renew { reply, .. } = unsent.0
        {
            reply(Err(LedgerError::Unreachable("its thread has ended".to_owned())));
        }
    }

    fn watch(&self, account: &str, observer: Weak<dyn FactsObserver>) {
        let account = account.to_owned();
        let _a_ledger_without_thread_has_no_news = self.requests.send(LedgerRequest::Watch { account, observer });
    }

    fn fingerprint(&self, credential: &[u8]) -> u64 {
        self.dir.fingerprint(credential)
    }

    fn is_usable(&self) -> bool {
        self.dir.is_intact()
    }

    fn flush(&self, patience: Duration) -> bool {
        let (done, is_done) = channel();
        let sent = self.requests.send(LedgerRequest::Flush(done));
        sent.is_ok() && is_done.recv_timeout(patience).is_ok()
    }
}

impl fmt::Debug for HostLedger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostLedger")
            .field("dir", &self.dir.path())
            .finish_non_exhaustive()
    }
}

/// The thread of a ledger.
struct LedgerWorker {
    dir: LedgerDir,
    clock: SharedClock,
    timeline: HostTimeline,
    checkpoints: CheckpointWriter,
    accounts: HashMap<String, UsedAccount>,
    observers: Vec<Watch>,
}

struct UsedAccount {
    file: AccountFile,
    last_used: Nanos,
}

struct Watch {
    account: String,
    observer: Weak<dyn FactsObserver>,
    /// Generation of the facts that the observer knows.
    seen: u64,
}

impl LedgerWorker {
    fn run(&mut self, queue: &Receiver<LedgerRequest>) {
        self.remove_unused_accounts();
        loop {
            let pause = if self.is_in_use() { FACTS_PAUSE } else { IDLE_PAUSE };
            match queue.recv_timeout(pause) {
                Ok(request) => self.serve(request),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            for request in queue.try_iter().take(BATCH) {
                self.serve(request);
            }
            self.notify_observers();
        }
    }

    fn serve(&mut self, request: LedgerRequest) {
        match request {
            LedgerRequest::Renew {
                account,
                request,
                reply,
            } => reply(self.renew(&account, &request)),
            LedgerRequest::Watch { account, observer } => self.observers.push(Watch {
                account,
                observer,
                seen: 0,
            }),
            LedgerRequest::Flush(done) => {
                let _the_caller_may_be_gone = done.send(());
            }
        }
    }

    fn renew(&mut self, name: &str, request: &LeaseRequest) -> Result<LeaseAnswer, LedgerError> {
        let (clock, now) = (Arc::clone(&self.clock), self.clock.now());
        let (dir, timeline) = (&self.dir, self.timeline);
        let used = self.accounts.entry(name.to_owned()).or_insert_with(|| UsedAccount {
            file: AccountFile::new(dir, timeline, name),
            last_used: now,
        });
        used.last_used = now;
        let turn = used.file.turn(&*clock, |account, now| {
            let answer = account.renew(now, &request.as_renewal());
            (answer, account.facts_generation())
        });
        let ((answer, generation), checkpoint) = turn.map_err(|error| LedgerError::Unreachable(error.to_string()))?;
        if let Some(job) = checkpoint {
            self.checkpoints.write(job);
        }
        for watch in self.observers.iter_mut().filter(|watch| watch.account == name) {
            watch.seen = generation;
        }
        answer.map_err(LedgerError::Refused)
    }

    /// Notifies observers of facts that other processes wrote. The account of an API has those of its groups.
    fn notify_observers(&mut self) {
        let now = self.clock.now();
        self.accounts.retain(|_, used| now.since(used.last_used) < CLOSED_AFTER);
        self.observers.retain(|watch| watch.observer.strong_count() > 0);
        let mut changed = Vec::new();
        for watch in &mut self.observers {
            let used = self.accounts.get(&watch.account);
            let generation = used.and_then(|used| used.file.facts_generation());
            if let Some(generation) = generation.filter(|generation| *generation != watch.seen) {
                watch.seen = generation;
                changed.extend(
                    watch
                        .observer
                        .upgrade()
                        .map(|observer| (watch.account.clone(), observer)),
                );
            }
        }
        for (account, observer) in changed {
            observer.facts_changed(&account);
        }
    }

    /// Returns true if a process may send without asking: it holds units, or callers wait.
    fn is_in_use(&self) -> bool {
        let now = self.clock.now();
        self.accounts.values().any(|used| now.since(used.last_used) < LIVELY)
    }

    fn remove_unused_accounts(&self) {
        let Ok(ledgers) = self.dir.ledgers() else {
            return;
        };
        for ledger in ledgers.take(MOST_REMOVALS) {
            let _another_process_may_use_it = AccountFile::remove_unused(ledger, self.timeline, &*self.clock);
        }
    }
}

/// A `Retry-After` reaches other processes within this time and one renewal.
const FACTS_PAUSE: Duration = Duration::from_millis(20);
/// Nothing happens on an idle ledger; the thread looks for its end only.
const IDLE_PAUSE: Duration = Duration::from_mins(1);
/// A lease ends two seconds after a renewal; without one a process sends nothing.
const LIVELY: Duration = Duration::from_secs(3);
/// An account that is not used keeps no descriptors.
const CLOSED_AFTER: Duration = Duration::from_mins(1);
/// Requests between two looks at the facts.
const BATCH: usize = 64;
/// A start takes no longer because a directory is full.
const MOST_REMOVALS: usize = 1_000;
