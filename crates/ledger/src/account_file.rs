//! One account in a file of fixed size.
//!
//! The file has a head and two copies of the account. Each turn locks it, takes the newest intact copy, applies
//! and writes the other copy. The file never grows, so a full disk stops no turn. If a process finds that the
//! file it used is gone, the arrivals of the last window are unknown, and the account starts full.

#[cfg(test)]
mod tests;

use std::fmt;
use std::fs::{self, File};
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use outflow_core::{Account, Clock, ClockPair, LeaseUnits, LimitUsage, Nanos};

use crate::account_copy::{AccountCopy, CopyHead};
use crate::checkpoint::{self, CheckpointJob};
use crate::file_access;
use crate::file_lock;
use crate::host_timeline::HostTimeline;
use crate::ledger_dir::LedgerDir;

/// One account, opened at its first turn.
#[derive(Debug)]
pub(crate) struct AccountFile {
    /// Empty for a file that was found in the directory.
    name: String,
    paths: AccountPaths,
    timeline: HostTimeline,
    lock: Option<File>,
    ledger: Option<File>,
    /// The copy that this process wrote last. No other wrote since if its sequence is still the newest.
    cached: Option<AccountCopy>,
    /// True if this process has used a file that is gone.
    lost_file: bool,
}

/// An account in a directory, as it is at this moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredAccount {
    /// Name of the account.
    pub name: String,
    /// Limits in force or in use, with their usage by all processes.
    pub limits: Vec<LimitUsage>,
    /// Units that each process holds.
    pub leases: Vec<LeaseUnits>,
}

/// Files of one account.
#[derive(Debug, Clone)]
pub(crate) struct AccountPaths {
    pub(crate) ledger: PathBuf,
    pub(crate) lock: PathBuf,
    pub(crate) checkpoint: PathBuf,
    new: PathBuf,
}

/// State of an account's file at the begin of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FileState {
    /// The file of the last turn.
    Known,
    /// A file that this process has not used.
    Replaced,
    /// This process created it.
    New,
}

/// Age of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CopyAge {
    Newest,
    /// The newest is damaged: it granted up to one lease more.
    OneTurnBehind,
    /// It lacks the time before a crash of the host.
    Checkpoint,
}

/// An account within a turn.
struct LoadedAccount {
    copy: AccountCopy,
    now: Nanos,
}

impl AccountPaths {
    fn new(dir: &LedgerDir, name: &str) -> Self {
        Self {
            ledger: dir.file(name, LEDGER),
            lock: dir.file(name, "lock"),
            checkpoint: dir.file(name, "checkpoint"),
            new: dir.file(name, "new"),
        }
    }

    /// Returns the files beside this ledger file.
    fn beside(ledger: PathBuf) -> Self {
        Self {
            lock: ledger.with_extension("lock"),
            checkpoint: ledger.with_extension("checkpoint"),
            new: ledger.with_extension("new"),
            ledger,
        }
    }
}

impl AccountFile {
    pub(crate) fn new(dir: &LedgerDir, timeline: HostTimeline, name: &str) -> Self {
        Self {
            name: name.to_owned(),
            ..Self::at(AccountPaths::new(dir, name), timeline)
        }
    }

    fn at(paths: AccountPaths, timeline: HostTimeline) -> Self {
        Self {
            name: String::new(),
            paths,
            timeline,
            lock: None,
            ledger: None,
            cached: None,
            lost_file: false,
        }
    }

    /// Applies a change under the lock. Returns its result and a checkpoint to write, if one is due.
    pub(crate) fn turn<T>(
        &mut self,
        clock: &dyn Clock,
        apply: impl FnOnce(&mut Account, Nanos) -> T,
    ) -> Result<(T, Option<CheckpointJob>), AccountFileError> {
        let mut lock = self.lock.take();
        let result = self.locked_turn(&mut lock, clock, apply);
        self.lock = lock;
        if result.is_err() {
            self.cached = None;
        }
        result.map_err(|reason| AccountFileError {
            path: self.paths.ledger.clone(),
            reason,
        })
    }

    fn locked_turn<T>(
        &mut self,
        lock: &mut Option<File>,
        clock: &dyn Clock,
        apply: impl FnOnce(&mut Account, Nanos) -> T,
    ) -> Result<(T, Option<CheckpointJob>), FileProblem> {
        let _locked = file_lock::lock(lock, &self.paths.lock)?;
        let moment = clock.moment();
        let mut loaded = self.load(moment)?;
        let generation = loaded.copy.account.facts_generation();
        let result = apply(&mut loaded.copy.account, loaded.now);
        let job = self.store(loaded, generation)?;
        Ok((result, job))
    }

    /// Reads the generation of the shared facts, without the lock. A torn number costs one renewal.
    pub(crate) fn facts_generation(&self) -> Option<u64> {
        let mut word = [0; 8];
        let read = file_access::read_at(self.ledger.as_ref()?, &mut word, GENERATION_AT);
        (read.ok() == Some(word.len())).then(|| u64::from_le_bytes(word))
    }

    /// Returns the newest account that can be had, at the time of this turn.
    fn load(&mut self, moment: ClockPair) -> Result<LoadedAccount, FileProblem> {
        let state = self.open_ledger()?;
        let Some(ledger) = &self.ledger else {
            return Err(FileProblem::Io(io::ErrorKind::NotFound.into()));
        };
        let heads = match state {
            FileState::New => CopyHeads::default(),
            FileState::Known | FileState::Replaced => CopyHeads::read(ledger)?,
        };
        let is_newest = |cached: &AccountCopy| heads.is_newest(cached.sequence);
        let found = match self.cached.take().filter(is_newest) {
            Some(copy) => Some((copy, CopyAge::Newest)),
            None => self.choose_copy(ledger, &heads)?,
        };
        let Some((mut copy, age)) = found else {
            // A new file of a new account has a complete history: none.
            let account = match state {
                FileState::New if !self.lost_file => Account::new(moment),
                _ => Account::with_unknown_history(moment),
            };
            self.lost_file = false;
            let copy = AccountCopy {
                sequence: 0,
                moment: self.timeline.first_moment(moment),
                checkpointed_at: 0,
                account,
            };
            return Ok(self.resume(copy, moment));
        };
        if std::mem::take(&mut self.lost_file) {
            copy.account.lose_history();
        }
        if age == CopyAge::OneTurnBehind {
            copy.account.charge_lost_grant();
        }
        // A crash of the host may have lost the newest turns, also of a copy that is intact.
        if age == CopyAge::Checkpoint || !self.timeline.is_same_start(copy.moment) {
            copy.account.charge_lost_time(LOST_AT_A_CRASH);
        }
        Ok(self.resume(copy, moment))
    }

    /// Continues the account's time, which may have begun in an earlier start of the host.
    fn resume(&self, mut copy: AccountCopy, moment: ClockPair) -> LoadedAccount {
        let latest = copy.account.latest().as_nanos();
        let (now, stored) = self.timeline.resume(copy.moment, latest, moment);
        copy.account.follow_wall(ClockPair { now, ..moment });
        copy.moment = stored;
        LoadedAccount { copy, now }
    }

    /// Returns the newest intact copy: one of the file's, or the checkpoint if the host lost newer writes.
    fn choose_copy(&self, ledger: &File, heads: &CopyHeads) -> io::Result<Option<(AccountCopy, CopyAge)>> {
        let in_file = heads.newest_intact(ledger);
        if let Some((copy, age)) = in_file {
            if self.timeline.is_same_start(copy.moment) {
                return Ok(Some((copy, age)));
            }
            let newer = checkpoint::read(&self.paths.checkpoint)?;
            let newer = newer.filter(|newer| newer.sequence > copy.sequence);
            return Ok(Some(newer.map_or((copy, age), |newer| (newer, CopyAge::Checkpoint))));
        }
        let checkpoint = checkpoint::read(&self.paths.checkpoint)?;
        Ok(checkpoint.map(|copy| (copy, CopyAge::Checkpoint)))
    }

    /// Opens the file, or creates it.
    fn open_ledger(&mut self) -> Result<FileState, FileProblem> {
        if let Some(ledger) = &self.ledger {
            if !file_access::is_removed(ledger)? {
                return Ok(FileState::Known);
            }
            // Outflow removed the account because nothing of it counted, or a person removed the file.
            self.lost_file = !is_retired(ledger)?;
            (self.ledger, self.cached) = (None, None);
        }
        match file_access::open(&self.paths.ledger) {
            Ok(file) => {
                check_format(&file)?;
                self.ledger = Some(file);
                Ok(FileState::Replaced)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.ledger = Some(self.create()?);
                Ok(FileState::New)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Creates the file whole, under its final name only when it is complete.
    fn create(&self) -> Result<File, FileProblem> {
        let _left_by_a_crash = fs::remove_file(&self.paths.new);
        let _of_a_lost_file = fs::remove_file(&self.paths.checkpoint);
        let file = file_access::create_new(&self.paths.new)?;
        let zeros = vec![0; FILE_LENGTH];
        file_access::write_at(&file, &zeros, 0)?;
        write_head(&file)?;
        let name = self.name.as_bytes();
        file_access::write_at(&file, name.get(..NAME_LENGTH).unwrap_or(name), NAME_AT)?;
        fs::rename(&self.paths.new, &self.paths.ledger)?;
        Ok(file)
    }

    fn store(&mut self, loaded: LoadedAccount, generation: u64) -> Result<Option<CheckpointJob>, FileProblem> {
        let Some(ledger) = &self.ledger else {
            return Err(FileProblem::Io(io::ErrorKind::NotFound.into()));
        };
        let LoadedAccount { mut copy, now } = loaded;
        copy.sequence += 1;
        let since = now.as_nanos().saturating_sub(copy.checkpointed_at);
        let is_due = since >= span_nanos(CHECKPOINT_PAUSE) && copy.account.remembers_beyond(SHORT_MEMORY);
        if is_due {
            copy.checkpointed_at = now.as_nanos();
        }
        let bytes = copy.encode();
        if bytes.len() > COPY_SPACE {
            return Err(FileProblem::Full);
        }
        file_access::write_at(ledger, &bytes, copy_offset(copy.sequence % 2))?;
        if copy.account.facts_generation() != generation {
            let word = copy.account.facts_generation().to_le_bytes();
            file_access::write_at(ledger, &word, GENERATION_AT)?;
        }
        let job = is_due.then(|| CheckpointJob {
            path: self.paths.checkpoint.clone(),
            sequence: copy.sequence,
            bytes,
        });
        self.cached = Some(copy);
        Ok(job)
    }

    /// Reads an account with its name, as it is at this moment. It takes no lock, so no other process waits.
    pub(crate) fn peek(
        ledger: PathBuf,
        timeline: HostTimeline,
        clock: &dyn Clock,
    ) -> io::Result<Option<StoredAccount>> {
        let known = Self::at(AccountPaths::beside(ledger), timeline);
        let file = file_access::open(&known.paths.ledger)?;
        let mut name = [0; NAME_LENGTH];
        file_access::read_at(&file, &mut name, NAME_AT)?;
        let name = String::from_utf8_lossy(&name);
        let copy = known.choose_copy(&file, &CopyHeads::read(&file)?)?;
        Ok(copy.map(|(copy, _)| {
            let LoadedAccount { mut copy, now } = known.resume(copy, clock.moment());
            let _it_may_be_unused = copy.account.is_unused(now);
            StoredAccount {
                name: shown(name.trim_end_matches('\0')),
                limits: copy.account.usage(),
                leases: copy.account.leases(),
            }
        }))
    }

    /// Removes the files of an account of which nothing counts any more.
    pub(crate) fn remove_unused(ledger: PathBuf, timeline: HostTimeline, clock: &dyn Clock) -> io::Result<bool> {
        let mut file = Self::at(AccountPaths::beside(ledger), timeline);
        let mut lock = None;
        let _locked = file_lock::lock(&mut lock, &file.paths.lock)?;
        let moment = clock.moment();
        let Ok(mut loaded) = file.load(moment) else {
            return Ok(false);
        };
        let is_unused = loaded.copy.account.is_unused(loaded.now);
        if let Some(ledger) = file.ledger.as_ref().filter(|_| is_unused) {
            file_access::write_at(ledger, &1_u64.to_le_bytes(), RETIRED_AT)?;
            fs::remove_file(&file.paths.ledger)?;
            let _absent_for_short_windows = fs::remove_file(&file.paths.checkpoint);
            fs::remove_file(&file.paths.lock)?;
        }
        Ok(is_unused)
    }
}

/// Replaces control characters, which a terminal would obey: a file may be damaged.
fn shown(name: &str) -> String {
    name.replace(char::is_control, "\u{fffd}")
}

/// Heads of the two copies of a file.
#[derive(Debug, Clone, Copy, Default)]
struct CopyHeads([Option<CopyHead>; 2]);

impl CopyHeads {
    fn read(ledger: &File) -> io::Result<Self> {
        let mut heads = [None; 2];
        for (half, head) in (0..).zip(&mut heads) {
            let mut bytes = [0; CopyHead::LENGTH];
            file_access::read_at(ledger, &mut bytes, copy_offset(half))?;
            *head = CopyHead::decode(&bytes);
        }
        Ok(Self(heads))
    }

    /// Returns true if the copy of this sequence is the newest, and nothing points to a newer one that is damaged:
    /// the other copy is the turn before.
    fn is_newest(&self, sequence: u64) -> bool {
        // No copy has the sequence 0: a head that says so is damaged.
        let numbered = |head: CopyHead| Some(head.sequence).filter(|sequence| *sequence > 0);
        let sequences = self
            .0
            .map(|head| head.map_or(0, |head| numbered(head).unwrap_or(u64::MAX)));
        let before = sequence.checked_sub(1);
        match sequence % 2 {
            0 => sequences == [sequence, before.unwrap_or(0)],
            _ => sequences == [before.unwrap_or(0), sequence],
        }
    }

    /// Returns the newest intact copy.
    fn newest_intact(&self, ledger: &File) -> Option<(AccountCopy, CopyAge)> {
        let copies = (0..).zip(self.0).filter_map(|(half, head)| {
            let mut bytes = vec![0; head.filter(|head| head.length <= COPY_SPACE)?.length];
            let read = file_access::read_at(ledger, &mut bytes, copy_offset(half)).ok()?;
            let copy = AccountCopy::decode(bytes.get(..read)?).ok()?;
            (copy.sequence % 2 == half).then_some(copy)
        });
        let copy = copies.max_by_key(|copy| copy.sequence)?;
        let age = if self.is_newest(copy.sequence) {
            CopyAge::Newest
        } else {
            CopyAge::OneTurnBehind
        };
        Some((copy, age))
    }
}

/// Refuses a file that is not an account of this or an earlier format. A damaged head is written again.
fn check_format(ledger: &File) -> Result<(), FileProblem> {
    let (mut magic, mut format) = ([0; 8], [0; 8]);
    file_access::read_at(ledger, &mut magic, 0)?;
    file_access::read_at(ledger, &mut format, FORMAT_AT)?;
    match (magic, u64::from_le_bytes(format)) {
        (MAGIC, newer) if newer > FORMAT => return Err(FileProblem::Newer(newer)),
        (MAGIC, _) => {}
        ([0, ..], _) => write_head(ledger)?,
        _ => return Err(FileProblem::Foreign),
    }
    let length = u64::try_from(FILE_LENGTH).unwrap_or(u64::MAX);
    if ledger.metadata()?.len() < length {
        ledger.set_len(length)?;
    }
    Ok(())
}

fn write_head(ledger: &File) -> io::Result<()> {
    file_access::write_at(ledger, &MAGIC, 0)?;
    file_access::write_at(ledger, &FORMAT.to_le_bytes(), FORMAT_AT)
}

fn is_retired(ledger: &File) -> io::Result<bool> {
    let mut word = [0; 8];
    file_access::read_at(ledger, &mut word, RETIRED_AT)?;
    Ok(u64::from_le_bytes(word) != 0)
}

fn copy_offset(half: u64) -> u64 {
    let space = u64::try_from(COPY_SPACE).unwrap_or(u64::MAX);
    HEAD_SPACE.saturating_add(half.saturating_mul(space))
}

fn span_nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

/// Failure of a turn.
#[derive(Debug)]
pub(crate) struct AccountFileError {
    path: PathBuf,
    reason: FileProblem,
}

#[derive(Debug)]
enum FileProblem {
    Io(io::Error),
    Foreign,
    Newer(u64),
    Full,
}

impl From<io::Error> for FileProblem {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl fmt::Display for AccountFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.path.display())?;
        match &self.reason {
            FileProblem::Io(error) => error.fmt(f),
            FileProblem::Foreign => f.write_str("this is no account of outflow: remove it, or name another directory"),
            FileProblem::Newer(format) => write!(
                f,
                "a newer outflow wrote it (format {format}, this one knows {FORMAT}): use that one, or name another \
                 directory"
            ),
            FileProblem::Full => f.write_str("too many processes share this account: use fewer"),
        }
    }
}

impl std::error::Error for AccountFileError {}

/// Extension of an account's file.
pub(crate) const LEDGER: &str = "ledger";

const MAGIC: [u8; 8] = *b"outflow\n";
const FORMAT: u64 = 1;
const FORMAT_AT: u64 = 8;
const GENERATION_AT: u64 = 16;
const RETIRED_AT: u64 = 24;
const NAME_AT: u64 = 64;
/// Longer names are cut: they are for people.
const NAME_LENGTH: usize = 256;
/// One page, so that a write of a copy never touches the head's.
const HEAD_SPACE: u64 = 4_096;
/// Space for four limits of 2.4 kB, the facts and about two hundred processes.
const COPY_SPACE: usize = 64 * 1_024;
const FILE_LENGTH: usize = 4_096 + 2 * COPY_SPACE;

/// A host that loses power loses what was counted since the last checkpoint: a second, and the time to write it.
const LOST_AT_A_CRASH: Duration = Duration::from_secs(2);
const CHECKPOINT_PAUSE: Duration = Duration::from_secs(1);
/// No host starts in less, and shorter windows are over by then.
const SHORT_MEMORY: Duration = Duration::from_secs(10);
