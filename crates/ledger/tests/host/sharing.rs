//! Several ledgers on one directory, as several processes have them.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Weak};
use std::time::Duration;

use outflow_core::{
    Clock as _, FactsObserver, LeaseAnswer, LeaseRequest, LeaseUnits, LedgerError, Limit, ManualClock, Nanos,
    QuotaLedger as _, QuotaWant, WallTime,
};
use outflow_ledger::{HostLedger, LedgerDir};
use outflow_testkit::Deadline;
use tempfile::TempDir;

/// A directory, and the clock of its host.
pub(crate) struct Host {
    dir: TempDir,
    clock: Arc<ManualClock>,
}

/// A process with a ledger of its own.
pub(crate) struct HostProcess {
    ledger: HostLedger,
    holder: u64,
    number: u64,
    joined: u64,
}

impl Host {
    pub(crate) fn new() -> Self {
        Self {
            dir: tempfile::tempdir().expect("a directory"),
            clock: Arc::new(ManualClock::new(
                Nanos::from_secs(1_000),
                WallTime::from_unix_secs(1_760_000_000),
            )),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn process(&self, holder: u64) -> HostProcess {
        let dir = LedgerDir::open(self.path()).expect("it is writable");
        let clock = Arc::clone(&self.clock);
        HostProcess {
            ledger: HostLedger::open(dir, clock).expect("a thread"),
            holder,
            number: 0,
            joined: 0,
        }
    }
}

impl HostProcess {
    /// Leases calls of the account `api`.
    pub(crate) fn lease(&mut self, rate: &str, calls: u64) -> Result<LeaseAnswer, LedgerError> {
        self.renew(rate, calls, None)
    }

    fn renew(
        &mut self,
        rate: &str,
        calls: u64,
        facts: Option<(u64, Vec<u64>, Duration)>,
    ) -> Result<LeaseAnswer, LedgerError> {
        self.number += 1;
        let request = LeaseRequest {
            holder: self.holder,
            number: self.number,
            joined: self.joined,
            limits: vec![Limit::sliding(rate.parse().expect("a rate"))],
            arrived: Vec::new(),
            returned: LeaseUnits::ZERO,
            wanted: QuotaWant::calls(calls),
            ttl: Duration::from_secs(2),
            timeout: Duration::from_secs(10),
            facts_seen: 0,
            facts,
        };
        let (send, answer) = channel();
        let reply = Box::new(move |answered| send.send(answered).expect("the test waits"));
        self.ledger.renew("api", Arc::new(request), reply);
        let answer = answer.recv().expect("every renewal is answered")?;
        self.joined = answer.joined;
        Ok(answer)
    }
}

#[test]
fn ledgers_of_one_directory_share_an_account() {
    let host = Host::new();
    let (mut first, mut second) = (host.process(1), host.process(2));
    assert_eq!(first.lease("10/s", 8).expect("a turn").granted.calls, 8);
    assert_eq!(second.lease("10/s", 8).expect("a turn").granted.calls, 2);
}

// Eight threads with a ledger each take ten units one by one.
#[test]
fn ledgers_at_once_never_grant_more_than_the_limit() {
    let host = Host::new();
    let granted: u64 = std::thread::scope(|scope| {
        let threads = (1..=8).map(|holder| {
            let mut process = host.process(holder);
            scope.spawn(move || {
                let leases = (0..10).map(|_| process.lease("50/s", 1).map_or(0, |answer| answer.granted.calls));
                leases.sum::<u64>()
            })
        });
        let threads: Vec<_> = threads.collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).sum()
    });
    // The fair order may leave units to a process that has already ended.
    assert!((40..=50).contains(&granted), "{granted}");
}

#[derive(Default)]
struct CountingObserver(AtomicUsize);

impl FactsObserver for CountingObserver {
    fn facts_changed(&self, account: &str) {
        assert_eq!(account, "api");
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

// A process with units hears of another's facts without a renewal, and not of its own.
#[test]
fn facts_of_another_process_are_noticed() {
    let host = Host::new();
    let (mut first, mut second) = (host.process(1), host.process(2));
    let observers = [Arc::<CountingObserver>::default(), Arc::default()];
    for (process, observer) in [&first, &second].into_iter().zip(&observers) {
        let observer: Weak<CountingObserver> = Arc::downgrade(observer);
        process.ledger.watch("api", observer);
    }
    first.lease("10/s", 1).expect("a turn");
    second.lease("10/s", 1).expect("a turn");
    let facts = Some((0, vec![7, 8], Duration::from_mins(1)));
    second.renew("10/s", 0, facts).expect("a turn");
    let deadline = Deadline::within(Duration::from_secs(30));
    while observers[0].0.load(Ordering::Relaxed) == 0 {
        assert!(!deadline.remaining().is_zero(), "the first hears of it");
        std::thread::park_timeout(Duration::from_millis(1));
    }
    let facts = first.lease("10/s", 1).expect("a turn").facts.expect("new facts");
    assert_eq!((facts.generation, facts.words), (1, vec![7, 8]));
    assert_eq!(observers[1].0.load(Ordering::Relaxed), 0, "its own are no news");
}

#[test]
fn a_later_process_knows_what_an_earlier_one_used() {
    let host = Host::new();
    host.process(1).lease("10/min", 7).expect("a turn");
    host.clock.advance(Duration::from_secs(20));
    assert_eq!(host.process(2).lease("10/min", 10).expect("a turn").granted.calls, 3);
    assert!(host.clock.now() > Nanos::from_secs(1_000));
}

#[test]
fn a_flush_waits_for_what_was_asked_before() {
    let host = Host::new();
    let mut process = host.process(1);
    process.lease("10/s", 1).expect("a turn");
    assert!(process.ledger.flush(Duration::from_secs(30)));
}

// The command that shows them runs in a process of its own.
#[test]
fn accounts_are_listed_with_their_usage_and_leases() {
    let host = Host::new();
    let (mut first, mut second) = (host.process(1), host.process(2));
    first.lease("10/min", 3).expect("a turn");
    second.lease("10/min", 4).expect("a turn");
    let list = || {
        let dir = LedgerDir::open(host.path()).expect("it is readable");
        dir.accounts(&*host.clock).expect("it is readable")
    };
    let accounts = list();
    let [account] = &accounts[..] else {
        panic!("{accounts:?}");
    };
    assert_eq!(account.name, "api");
    assert_eq!(account.leases, [LeaseUnits::new(3, 3), LeaseUnits::new(4, 4)]);
    assert_eq!((account.limits[0].arrived, account.limits[0].held), (0, 7));
    // Both are gone, and their calls count as arrived.
    host.clock.advance(Duration::from_secs(20));
    let account = list().pop().expect("it still counts");
    assert_eq!((account.leases.len(), account.limits[0].arrived), (0, 7));
}

#[cfg(unix)]
#[test]
fn a_directory_is_its_owners_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().expect("a directory");
    let path = folder.path().join("state").join("shared");
    let dir = LedgerDir::open(&path).expect("created");
    let mode = |path: &Path| std::fs::metadata(path).expect("it exists").permissions().mode() & 0o777;
    assert_eq!((mode(&path), mode(&path.join("key"))), (0o700, 0o600));
    let again = LedgerDir::open(&path).expect("opened");
    assert_eq!(dir.fingerprint(b"secret"), again.fingerprint(b"secret"));
    assert_ne!(dir.fingerprint(b"secret"), dir.fingerprint(b"other"));
    let other = LedgerDir::open(folder.path()).expect("opened");
    assert_ne!(
        dir.fingerprint(b"secret"),
        other.fingerprint(b"secret"),
        "each directory has a key"
    );
}

#[test]
fn a_directory_that_cannot_be_used_is_an_error_with_a_remedy() {
    let folder = tempfile::tempdir().expect("a directory");
    let file = folder.path().join("file");
    std::fs::write(&file, b"").expect("written");
    let error = LedgerDir::open(&file.join("shared"))
        .expect_err("a file is in the way")
        .to_string();
    assert!(error.contains("name another in `shared.dir`"), "{error}");
}
