//! Accounts of several processes in one directory, and every damage that a file can have.

use std::os::unix::fs::symlink;

use outflow_core::{LeaseAnswer, LeaseRenewal, Limit, ManualClock, QuotaWant, WallTime};

use super::*;

/// A directory with one account, and the clock of the host.
struct Host {
    dir: LedgerDir,
    clock: ManualClock,
    timeline: HostTimeline,
    has_checkpoints: bool,
    _removed_at_the_end: tempfile::TempDir,
}

impl Host {
    fn new() -> Self {
        let temp = tempfile::tempdir().expect("a directory");
        Self {
            dir: LedgerDir::open(temp.path()).expect("it is writable"),
            clock: ManualClock::new(Nanos::from_secs(1_000), WallTime::from_unix_secs(1_760_000_000)),
            timeline: HostTimeline::of_host(),
            has_checkpoints: true,
            _removed_at_the_end: temp,
        }
    }

    /// Its damage cannot be mended from a checkpoint.
    fn without_checkpoints() -> Self {
        Self {
            has_checkpoints: false,
            ..Self::new()
        }
    }

    fn process(&self) -> Process {
        Process {
            file: AccountFile::new(&self.dir, self.timeline, "api"),
            holder: unique_holder(),
            number: 0,
            joined: 0,
        }
    }

    fn path(&self) -> PathBuf {
        self.dir.file("api", LEDGER)
    }

    /// Returns what a new process is granted of 100 per minute.
    fn free(&self) -> u64 {
        let mut other = self.process();
        let granted = other.want(self, 100).expect("a turn").granted.calls;
        other.renew(self, 0, granted).expect("a turn");
        granted
    }
}

/// A process of the host.
struct Process {
    file: AccountFile,
    holder: u64,
    number: u64,
    joined: u64,
}

/// Returns a number that no other holder of this test run has.
fn unique_holder() -> u64 {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

impl Process {
    fn want(&mut self, host: &Host, calls: u64) -> Result<LeaseAnswer, AccountFileError> {
        self.renew(host, calls, 0)
    }

    fn renew(&mut self, host: &Host, calls: u64, returned: u64) -> Result<LeaseAnswer, AccountFileError> {
        self.number += 1;
        let limits = [Limit::sliding("100/min".parse().expect("a rate"))];
        let (holder, number, joined) = (self.holder, self.number, self.joined);
        let turn = self.file.turn(&host.clock, |account, now| {
            let renewal = LeaseRenewal {
                holder,
                number,
                joined,
                limits: &limits,
                arrived: &[],
                returned: LeaseUnits::new(returned, returned),
                wanted: QuotaWant::calls(calls),
                ttl: Duration::from_secs(2),
                timeout: Duration::from_secs(10),
                facts_seen: 0,
                facts: None,
            };
            account.renew(now, &renewal)
        })?;
        let (answer, checkpoint) = turn;
        if let Some(job) = checkpoint.filter(|_| host.has_checkpoints) {
            checkpoint::write(&job).expect("a checkpoint");
        }
        let answer = answer.expect("the account knows it");
        self.joined = answer.joined;
        Ok(answer)
    }
}

#[test]
fn processes_share_an_account() {
    let host = Host::new();
    let (mut first, mut second) = (host.process(), host.process());
    assert_eq!(first.want(&host, 60).expect("a turn").granted.calls, 60);
    let answer = second.want(&host, 60).expect("a turn");
    assert_eq!((answer.granted.calls, answer.peers), (40, 1));
}

// The lease of a killed process ends after 2 s, its calls arrive within 10 s and count for a minute.
#[test]
fn units_of_a_killed_process_count_until_their_window_has_passed() {
    let host = Host::new();
    let mut killed = host.process();
    killed.want(&host, 60).expect("a turn");
    drop(killed);
    host.clock.advance(Duration::from_secs(11 + 60));
    assert_eq!(host.free(), 40);
    host.clock.advance(Duration::from_secs(2));
    assert_eq!(host.free(), 100);
}

// A process that is killed while it writes leaves a copy with a wrong checksum.
#[test]
fn a_torn_write_leaves_the_turn_before_and_costs_one_lease() {
    let host = Host::new();
    let mut process = host.process();
    process.want(&host, 10).expect("a turn");
    process.want(&host, 10).expect("a turn");
    let ledger = file_access::open(&host.path()).expect("the file");
    file_access::write_at(&ledger, &[0xFF; 40], copy_offset(0) + 40).expect("the second copy is torn");
    // Ten are known, and the lost turn may have granted a quarter of the limit.
    assert_eq!(host.free(), 100 - 10 - 25);
}

#[test]
fn a_file_without_an_intact_copy_opens_one_window_later() {
    let host = Host::without_checkpoints();
    host.process().want(&host, 10).expect("a turn");
    let ledger = file_access::open(&host.path()).expect("the file");
    ledger.set_len(100).expect("truncated");
    assert_eq!(host.free(), 0);
    host.clock.advance(Duration::from_secs(61));
    assert_eq!(host.free(), 100);
}

#[test]
fn an_emptied_file_is_rebuilt_and_opens_one_window_later() {
    let host = Host::without_checkpoints();
    let mut process = host.process();
    process.want(&host, 10).expect("a turn");
    fs::write(host.path(), b"").expect("emptied");
    assert_eq!(host.free(), 0);
    host.clock.advance(Duration::from_secs(61));
    assert_eq!(host.free(), 100);
}

// Two seconds at 100/min are 3 units, one is rounding.
#[test]
fn a_damaged_file_with_a_checkpoint_costs_two_seconds() {
    let host = Host::new();
    host.process().want(&host, 10).expect("a turn");
    fs::write(host.path(), b"").expect("emptied");
    assert_eq!(host.free(), 100 - 10 - 4);
}

#[test]
fn a_removed_file_makes_the_account_full_for_a_window() {
    let host = Host::new();
    let mut process = host.process();
    process.want(&host, 10).expect("a turn");
    fs::remove_file(host.path()).expect("removed");
    let later = process.file.turn(&host.clock, |account, _| account.clone());
    assert!(later.is_ok());
    assert_eq!(host.free(), 0);
    host.clock.advance(Duration::from_secs(61));
    assert_eq!(host.free(), 100);
}

// Another process may have made a new file before the one with the old file looks.
#[test]
fn a_replaced_file_becomes_full_when_a_process_with_the_old_one_sees_it() {
    let host = Host::new();
    let mut process = host.process();
    process.want(&host, 10).expect("a turn");
    fs::remove_file(host.path()).expect("removed");
    assert_eq!(host.free(), 100);
    process.file.turn(&host.clock, |_, _| ()).expect("a turn");
    assert_eq!(host.free(), 0);
}

#[test]
fn an_account_without_use_is_removed_and_another_process_goes_on() {
    let host = Host::new();
    let mut process = host.process();
    process.file.turn(&host.clock, |_, _| ()).expect("a turn");
    let removed = AccountFile::remove_unused(host.path(), host.timeline, &host.clock);
    assert!(removed.expect("no other uses it"));
    assert!(!host.path().exists());
    assert_eq!(process.want(&host, 100).expect("a turn").granted.calls, 100);
    let kept = AccountFile::remove_unused(host.path(), host.timeline, &host.clock);
    assert!(!kept.expect("its files are there"), "units are held");
}

// The clock of the host starts again; the civil clock shows that 30 s passed.
#[test]
fn another_start_of_the_host_continues_the_account() {
    let host = Host::new();
    let mut process = host.process();
    process.want(&host, 60).expect("a turn");
    let next = Host {
        clock: ManualClock::new(Nanos::from_secs(3), WallTime::from_unix_secs(1_760_000_030)),
        timeline: HostTimeline::of_host().after_restart(),
        ..host
    };
    assert_eq!(next.free(), 100 - 60 - 4);
    next.clock.advance(Duration::from_secs(45));
    assert_eq!(next.free(), 100);
}

#[test]
fn foreign_and_newer_files_are_refused_with_their_path() {
    let host = Host::new();
    fs::write(host.path(), vec![b'x'; 200_000]).expect("a foreign file");
    let error = host.process().want(&host, 1).expect_err("foreign").to_string();
    assert!(
        error.contains("no account of outflow") && error.contains("api-"),
        "{error}"
    );
    fs::remove_file(host.path()).expect("removed");
    host.process().want(&host, 1).expect("a turn");
    let ledger = file_access::open(&host.path()).expect("the file");
    file_access::write_at(&ledger, &9_u64.to_le_bytes(), FORMAT_AT).expect("written");
    let error = host.process().want(&host, 1).expect_err("newer").to_string();
    assert!(error.contains("format 9, this one knows 1"), "{error}");
}

#[test]
fn a_damaged_name_is_shown_without_control_characters() {
    let host = Host::new();
    host.process().want(&host, 1).expect("a turn");
    let ledger = file_access::open(&host.path()).expect("it exists");
    file_access::write_at(&ledger, b"\x1b[31mshop\n", NAME_AT).expect("written");
    let accounts = host.dir.accounts(&host.clock).expect("readable");
    let names: Vec<_> = accounts.iter().map(|account| account.name.as_str()).collect();
    assert_eq!(names, ["\u{fffd}[31mshop\u{fffd}"]);
}

#[test]
fn a_link_in_its_place_is_not_followed() {
    let host = Host::new();
    let elsewhere = host.dir.path().join("elsewhere");
    fs::write(&elsewhere, b"precious").expect("a file");
    symlink(&elsewhere, host.path()).expect("a link");
    host.process().want(&host, 1).expect_err("a link");
    assert_eq!(fs::read(&elsewhere).expect("a file"), b"precious");
}

// A process that was stopped inside its turn keeps the lock.
#[test]
fn a_lock_that_another_process_keeps_is_an_error_with_its_reason() {
    let host = Host::new();
    host.process().want(&host, 1).expect("a turn");
    let stopped = file_access::open(&host.dir.file("api", "lock")).expect("the lock");
    stopped.lock().expect("free");
    let error = host.process().want(&host, 1).expect_err("locked").to_string();
    assert!(error.contains("is one of them stopped?"), "{error}");
    drop(stopped);
    host.process().want(&host, 1).expect("a turn");
}

#[test]
fn too_many_processes_are_refused_and_the_others_go_on() {
    let host = Host::new();
    let mut first = host.process();
    first.want(&host, 1).expect("a turn");
    let refused = (0..2_000).find_map(|_| host.process().want(&host, 1).err());
    assert!(refused.is_some_and(|error| error.to_string().contains("too many processes")));
    first.want(&host, 1).expect("a turn");
}

// Ten thousand single flipped bits over head and copies: never more than the limit, and no turn panics.
#[test]
fn flipped_bits_never_grant_more_than_the_limit() {
    let host = Host::without_checkpoints();
    let mut process = host.process();
    process.want(&host, 30).expect("a turn");
    process.want(&host, 30).expect("a turn");
    let intact = fs::read(host.path()).expect("the file");
    let ledger = file_access::open(&host.path()).expect("the file");
    let used: Vec<usize> = (0..intact.len()).filter(|at| intact[*at] != 0 || *at < 64).collect();
    for case in 0..10_000 {
        let mut damaged = intact.clone();
        damaged[used[case % used.len()]] ^= 1 << (case / used.len() % 8);
        file_access::write_at(&ledger, &damaged, 0).expect("damaged");
        let granted = host.process().want(&host, 100).map_or(0, |answer| answer.granted.calls);
        assert!(
            granted <= 45,
            "{granted} beside 60 with byte {} damaged",
            used[case % used.len()]
        );
    }
}
