//! The directory of an embedded store: its lock, its database, and what may be wrong with them.
//!
//! Nothing here deletes or repairs: a file that cannot be understood is left as it is, and the message
//! says what its owner can do. The lock is the operating system's, on a file of its own, so it ends with
//! the process however that ends.

use std::fmt::Display;
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags};

use super::rows::rows;
use super::store_id::{IdCheck, SEAL};
use super::wal_check::JournalExtent;
use crate::error::StoreError;

/// The files of a store, held against other processes.
#[derive(Debug)]
pub(crate) struct StoreFiles {
    database: PathBuf,
    seal: IdCheck,
    /// Whether its journal was broken, and nobody was told.
    broken: AtomicBool,
    _lock: File,
}

impl StoreFiles {
    /// Takes the directory, and makes it if there is none.
    pub(crate) fn hold(dir: &Path) -> Result<Self, StoreError> {
        let opened = private_dir(dir).and_then(|()| private_file(&dir.join(LOCK)));
        let lock = opened.map_err(|error| unusable(dir, &error))?;
        match lock.try_lock() {
            Ok(()) => Self::found(dir, lock),
            Err(TryLockError::WouldBlock) => Err(StoreError::in_use(format!(
                "another process uses the job store in {}: stop it, or choose another directory",
                dir.display()
            ))),
            Err(TryLockError::Error(error)) => Err(unusable(dir, &error)),
        }
    }

    /// Looks at what is there, and makes a database if there was none.
    fn found(dir: &Path, lock: File) -> Result<Self, StoreError> {
        let ours = |error: io::Error| unusable(dir, &error);
        let files = Self {
            database: dir.join(DATABASE),
            seal: IdCheck::find(dir).map_err(ours)?,
            broken: AtomicBool::new(false),
            _lock: lock,
        };
        let journal = length(&dir.join(JOURNAL)).map_err(ours)?;
        let database = length(&files.database).map_err(ours)?;
        // `SQLite` would take the database for a new one, and the journal away.
        if database == 0 && (files.seal.is_set() || journal > 0) {
            return Err(files.emptied());
        }
        match JournalExtent::read(&dir.join(JOURNAL)).map_err(ours)? {
            JournalExtent::Whole => {}
            JournalExtent::Broken => files.broken.store(true, Ordering::Relaxed),
            JournalExtent::Headless => return Err(files.damaged("the head of its journal")),
        }
        private_file(&files.database).map_err(ours)?;
        Ok(files)
    }

    /// A connection that writes, to a database that is ours and whole.
    pub(crate) fn writing(&self) -> Result<Connection, StoreError> {
        self.renew_journal()?;
        let connection = Connection::open(&self.database).map_err(|error| self.broken(&error))?;
        self.prepare(&connection)
            .map_err(|error| self.broken(&error))?;
        self.recognise(&connection)?;
        self.inspect(&connection)?;
        self.modernise(&connection)?;
        connection.set_prepared_statement_cache_capacity(STATEMENTS);
        Ok(connection)
    }

    /// Takes over what was found, once it is known to be whole.
    pub(crate) fn take_over(&self, connection: &Connection) -> Result<(), StoreError> {
        let config = DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE;
        let taken = connection.set_db_config(config, false);
        taken.map_err(|error| self.broken(&error))?;
        // `SQLite` does the same for its files, and tells nobody if it fails.
        let dir = self.dir();
        keep_names(dir).map_err(|error| unusable(dir, &error))
    }

    /// Whether the database is the one that was made here.
    pub(crate) fn identify(&self, connection: &Connection) -> Result<(), StoreError> {
        let IdCheck::Of(identity) = &self.seal else {
            return Ok(());
        };
        let found = rows(connection, "SELECT mint FROM total", |row| row.get(0));
        let found: Vec<String> = found.map_err(|error| self.broken(&error))?;
        match found.first() {
            Some(found) if found == identity => Ok(()),
            Some(_) => Err(self.foreign(format!(
                "is not the database that was made here: restore that one from a copy, or remove the \
                 file `{SEAL}` if the other is meant"
            ))),
            None => Err(self.damaged("it does not say which store it is")),
        }
    }

    /// Seals what was taken over, unless it is.
    pub(crate) fn seal(&self, identity: &str) -> Result<(), StoreError> {
        if self.seal == IdCheck::Of(identity.to_owned()) {
            return Ok(());
        }
        let dir = self.dir();
        IdCheck::set(dir, identity).map_err(|error| unusable(dir, &error))
    }

    /// Whether its journal was found broken, once.
    pub(crate) fn was_broken(&self) -> bool {
        self.broken.swap(false, Ordering::Relaxed)
    }

    fn dir(&self) -> &Path {
        self.database.parent().unwrap_or(Path::new("."))
    }

    /// Writes the journal once more, byte for byte. A system whose sync failed has forgotten that it still
    /// has to write what is in its memory, and the next sync succeeds without it: whatever is added would
    /// stand behind a gap. After a crash nobody knows whether that happened.
    pub(crate) fn renew_journal(&self) -> Result<(), StoreError> {
        let path = self.database.with_file_name(JOURNAL);
        let renewed = match File::open(&path) {
            Ok(found) => rewrite(found, &path),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        };
        renewed.map_err(|error| {
            StoreError::doubtful(format!("the disk of the job store failed: {error}"))
        })
    }

    /// A connection that only reads, beside the one that writes.
    pub(crate) fn reading(&self) -> Result<Connection, StoreError> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(&self.database, flags)
            .map_err(|error| self.broken(&error))?;
        connection.set_prepared_statement_cache_capacity(STATEMENTS);
        connection.busy_timeout(PATIENCE).map_err(failed)?;
        self.writes_ahead(&connection)?;
        Ok(connection)
    }

    fn prepare(&self, connection: &Connection) -> rusqlite::Result<()> {
        connection.busy_timeout(PATIENCE)?;
        // A database that is refused is left as it is, with its journal.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
        if fs::metadata(&self.database).map_or(0, |file| file.len()) == 0 {
            connection.pragma_update(None, "page_size", PAGE_BYTES)?;
            connection.pragma_update(None, "auto_vacuum", "incremental")?;
        }
        connection.pragma_update(None, "journal_mode", "wal")?;
        connection.pragma_update(None, "journal_size_limit", JOURNAL_BYTES)
    }

    /// Whether the database has the journal that was asked for. If it could not be had, `SQLite` keeps one
    /// under which a power cut may undo a commit; whoever asked is not told, but the next connection is.
    fn writes_ahead(&self, connection: &Connection) -> Result<(), StoreError> {
        let mode: rusqlite::Result<String> =
            connection.pragma_query_value(None, "journal_mode", |row| row.get(0));
        match mode.map_err(|error| self.broken(&error))?.as_str() {
            "wal" => Ok(()),
            other => Err(StoreError::unreachable(format!(
                "{} can only be kept with a journal of the kind {other}, which is not safe: choose a \
                 directory on a disk of this machine",
                self.database.display()
            ))),
        }
    }

    fn number(&self, connection: &Connection, pragma: &str) -> Result<i64, StoreError> {
        connection
            .pragma_query_value(None, pragma, |row| row.get(0))
            .map_err(|error| self.broken(&error))
    }

    /// Makes the tables of a new database; of another, says whether it is ours.
    fn recognise(&self, connection: &Connection) -> Result<(), StoreError> {
        let read = |pragma: &str| self.number(connection, pragma);
        match (read("application_id")?, read("user_version")?) {
            (0, 0) if read("schema_version")? == 0 && self.seal.is_set() => Err(self.emptied()),
            (0, 0) if read("schema_version")? == 0 => connection
                .execute_batch(include_str!("schema.sql"))
                .map_err(failed),
            (APPLICATION, 1..=VERSION) => Ok(()),
            (APPLICATION, later) => Err(self.foreign(format!(
                "is of version {later}, and this program knows up to {VERSION}: use a later one"
            ))),
            _ => Err(self.foreign("is not a job store: choose another directory")),
        }
    }

    /// Gives a database of an earlier version what it lacks, version by version.
    fn modernise(&self, connection: &Connection) -> Result<(), StoreError> {
        let found = self.number(connection, "user_version")?;
        for (version, step) in (1..).zip([FROM_1_TO_2, FROM_2_TO_3]) {
            if version >= found {
                connection.execute_batch(step).map_err(failed)?;
            }
        }
        Ok(())
    }

    /// Reads a small database entirely. One that takes long is checked as it is read.
    fn inspect(&self, connection: &Connection) -> Result<(), StoreError> {
        if fs::metadata(&self.database).map_or(0, |file| file.len()) > SOON_READ {
            return Ok(());
        }
        let first: String = connection
            .pragma_query_value(None, "quick_check", |row| row.get(0))
            .map_err(|error| self.broken(&error))?;
        match first.as_str() {
            "ok" => Ok(()),
            words => Err(self.damaged(words)),
        }
    }

    /// What a mistake while opening means.
    pub(crate) fn broken(&self, error: &rusqlite::Error) -> StoreError {
        match error.sqlite_error_code() {
            // A table or a column that is not there was there when the database was made: what is asked is
            // always the same.
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase | ErrorCode::Unknown) => {
                self.damaged(error)
            }
            None if matches!(error, rusqlite::Error::SqlInputError { .. }) => self.damaged(error),
            None if is_nonsense(error) => self.damaged(error),
            _ => failed_by(error),
        }
    }

    fn damaged(&self, words: impl Display) -> StoreError {
        self.foreign(format!(
            "is damaged ({words}): nothing was changed; keep a copy, then restore a backup or try \
             `sqlite3 jobs.db .recover`"
        ))
    }

    /// There was more than is found now.
    fn emptied(&self) -> StoreError {
        self.foreign(format!(
            "is empty or gone, and it held a job store: nothing was changed; restore it from a copy, or \
             remove the directory {} to begin anew, without the jobs and results that were in it",
            self.dir().display()
        ))
    }

    fn foreign(&self, words: impl Display) -> StoreError {
        StoreError::damaged(format!("{} {words}", self.database.display()))
    }
}

/// What a mistake of the database means to whoever asked.
pub(crate) fn failed(error: rusqlite::Error) -> StoreError {
    failed_by(&error)
}

fn failed_by(error: &rusqlite::Error) -> StoreError {
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => StoreError::full(
            "the disk of the job store is full: make room, and ask again; of this request nothing was kept",
        ),
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
            StoreError::damaged(format!("the job store is damaged: {error}"))
        }
        // A commit whose sync failed may be found whole after the next start.
        Some(ErrorCode::SystemIoFailure) => {
            StoreError::doubtful(format!("the disk of the job store failed: {error}"))
        }
        None if is_nonsense(error) => {
            StoreError::damaged(format!("the job store is damaged: {error}"))
        }
        _ => StoreError::unreachable(format!("the job store cannot be used: {error}")),
    }
}

/// Whether a row is there in part, or a column holds what nobody writes there.
fn is_nonsense(error: &rusqlite::Error) -> bool {
    matches!(
        error,
        rusqlite::Error::InvalidColumnType(..)
            | rusqlite::Error::FromSqlConversionFailure(..)
            | rusqlite::Error::IntegralValueOutOfRange(..)
            | rusqlite::Error::Utf8Error(..)
            | rusqlite::Error::QueryReturnedNoRows
    )
}

/// A directory that is its owner's alone, if it has to be made: jobs hold what they are to send, keys of
/// tenants among it.
fn private_dir(dir: &Path) -> io::Result<()> {
    let missing: Vec<&Path> = dir.ancestors().take_while(|dir| !dir.exists()).collect();
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(dir)?;
    let mut parents = missing.iter().filter_map(|dir| dir.parent());
    parents.try_for_each(keep_names).inspect_err(|_| {
        // The next attempt has to find that they are missing. It is their names that are not safe, so it
        // does no harm if that fails.
        let _ = missing.iter().try_for_each(fs::remove_dir);
    })
}

/// Writes a file over itself, and waits until it is on the disk.
fn rewrite(mut found: File, path: &Path) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).open(path)?;
    let mut piece = vec![0; REWRITE_BYTES];
    loop {
        let length = found.read(&mut piece)?;
        match piece.get(..length) {
            Some(read) if length > 0 => file.write_all(read)?,
            _ => return file.sync_all(),
        }
    }
}

/// How long a file is: nothing if it is not there.
fn length(path: &Path) -> io::Result<u64> {
    match fs::metadata(path) {
        Ok(file) => Ok(file.len()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
        Err(error) => Err(error),
    }
}

/// Sees to it that the names in a directory outlive a power cut.
pub(crate) fn keep_names(dir: &Path) -> io::Result<()> {
    let here = Path::new(".");
    let dir = if dir == Path::new("") { here } else { dir };
    if cfg!(unix) {
        File::open(dir)?.sync_all()?;
    }
    Ok(())
}

/// The same for a file. The journal of a database is made with the database's own rights.
pub(crate) fn private_file(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.create(true).truncate(false).write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

fn unusable(dir: &Path, error: &std::io::Error) -> StoreError {
    StoreError::unreachable(format!(
        "the directory {} cannot be used for jobs: {error}",
        dir.display()
    ))
}

/// The database, with its journal beside it.
const DATABASE: &str = "jobs.db";

/// Its journal, as `SQLite` names it.
const JOURNAL: &str = "jobs.db-wal";

/// The file whose lock says that a process is at work here.
const LOCK: &str = "lock";

/// `Outf` in letters: says whose file it is to whoever finds it.
const APPLICATION: i64 = 0x4f75_7466;

/// The layout of the tables.
const VERSION: i64 = 3;

/// The second says of a job that failed what happened.
const FROM_1_TO_2: &str = "BEGIN; ALTER TABLE outcome ADD COLUMN words TEXT; \
                           PRAGMA user_version = 2; COMMIT;";

/// The third knows a job that was damaged on the disk; what is there already cannot tell.
const FROM_2_TO_3: &str = "BEGIN; ALTER TABLE job ADD COLUMN sum INTEGER; \
                           ALTER TABLE dead ADD COLUMN sum INTEGER; \
                           PRAGMA user_version = 3; COMMIT;";

/// Half of the usual: a small transaction writes whole pages, and fewer bytes of others come with it.
const PAGE_BYTES: u32 = 2_048;

/// Eight megabytes of journal between two moves into the database: pages that change often are moved
/// once, and a start after a crash has little to read.
pub(crate) const CHECKPOINT_PAGES: u32 = 4_096;

/// What the journal shrinks to after a burst.
const JOURNAL_BYTES: u32 = 16 * 1_024 * 1_024;

/// The journal is rewritten in pieces of this size, which is soon copied and not much memory.
const REWRITE_BYTES: usize = 256 * 1_024;

/// All that are used, so that none is parsed twice.
const STATEMENTS: usize = 64;

/// Nobody else writes, so this only covers a backup that reads.
const PATIENCE: Duration = Duration::from_secs(5);

/// A database up to this size is read in a few hundredths of a second.
const SOON_READ: u64 = 16 * 1_024 * 1_024;
