//! Directory of an embedded store: its lock, its database, and the checks before they are used.
//!
//! Nothing here deletes or repairs: an unreadable file stays as it is, and the error says what its owner
//! can do. The lock is the operating system's, on a file of its own, so that it ends with the process.

use std::fmt::Display;
use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::types::FromSql;
use rusqlite::{Connection, OpenFlags};

use super::database_error::{failed, is_damage};
use super::private_files::{FileIdentity, create_private_dir, file_length, open_private_file, rewrite_file, sync_dir};
use super::rows::rows;
use super::schema;
use super::store_id::{ID_FILE, IdCheck};
use super::wal_check::JournalExtent;
use crate::error::StoreError;

/// The files of a store, locked against other processes.
#[derive(Debug)]
pub(crate) struct StoreFiles {
    database: PathBuf,
    id: IdCheck,
    /// Its journal was broken, and no warning was taken yet.
    is_broken: AtomicBool,
    /// Database and journal that are open.
    open: OnceLock<[Option<FileIdentity>; 2]>,
    _lock: File,
}

impl StoreFiles {
    /// Locks the directory, and creates a missing one.
    pub(crate) fn open(dir: &Path) -> Result<Self, StoreError> {
        let opened = create_private_dir(dir).and_then(|()| open_private_file(&dir.join(LOCK)));
        let lock = opened.map_err(|error| unusable(dir, &error))?;
        match lock.try_lock() {
            Ok(()) => Self::check_files(dir, lock),
            Err(TryLockError::WouldBlock) => Err(StoreError::in_use(format!(
                "another process uses the job store in {}: stop it, or choose another directory",
                dir.display()
            ))),
            Err(TryLockError::Error(error)) => Err(unusable(dir, &error)),
        }
    }

    /// Checks the files, and creates a missing database.
    fn check_files(dir: &Path, lock: File) -> Result<Self, StoreError> {
        let unusable = |error: io::Error| unusable(dir, &error);
        let files = Self {
            database: dir.join(DATABASE),
            id: IdCheck::read_from(dir).map_err(unusable)?,
            is_broken: AtomicBool::new(false),
            open: OnceLock::new(),
            _lock: lock,
        };
        let journal = file_length(&dir.join(JOURNAL)).map_err(unusable)?;
        let database = file_length(&files.database).map_err(unusable)?;
        // `SQLite` would take the database for a new one, and delete the journal.
        if database == 0 && (files.id.exists() || journal > 0) {
            return Err(files.emptied());
        }
        match JournalExtent::read(&dir.join(JOURNAL)).map_err(unusable)? {
            JournalExtent::Whole => {}
            JournalExtent::Broken => files.is_broken.store(true, Ordering::Relaxed),
            JournalExtent::Headless => return Err(files.damaged("the head of its journal")),
        }
        open_private_file(&files.database).map_err(unusable)?;
        Ok(files)
    }

    /// Opens a connection that writes, to a checked and current database.
    pub(crate) fn open_writer(&self) -> Result<Connection, StoreError> {
        self.rewrite_journal()?;
        let connection = self.check(Connection::open(&self.database))?;
        self.check(self.configure(&connection))?;
        self.check_version(&connection)?;
        self.quick_check(&connection)?;
        self.upgrade(&connection)?;
        connection.set_prepared_statement_cache_capacity(STATEMENTS);
        Ok(connection)
    }

    /// Opens a connection that only reads, next to the one that writes.
    pub(crate) fn open_reader(&self) -> Result<Connection, StoreError> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = self.check(Connection::open_with_flags(&self.database, flags))?;
        connection.set_prepared_statement_cache_capacity(STATEMENTS);
        connection.busy_timeout(BUSY_TIMEOUT).map_err(failed)?;
        self.check_journal_mode(&connection)?;
        Ok(connection)
    }

    /// Accepts a loaded database: from now on `SQLite` may move its journal.
    pub(crate) fn accept(&self, connection: &Connection) -> Result<(), StoreError> {
        let config = DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE;
        self.check(connection.set_db_config(config, false))?;
        // `SQLite` syncs the names of its files, too, and does not report a failure.
        let dir = self.dir();
        let opened = sync_dir(dir).and_then(|()| self.identities());
        let opened = opened.map_err(|error| unusable(dir, &error))?;
        // A store is accepted once.
        let _known = self.open.set(opened);
        Ok(())
    }

    /// Checks that the open files are still in the directory. `SQLite` does not notice that a file was removed or
    /// replaced: it goes on with one that no program can open again, and every job in it is lost with the process.
    pub(crate) fn check_present(&self) -> Result<(), StoreError> {
        let found = self.identities().map_err(|error| unusable(self.dir(), &error))?;
        match self.open.get() {
            Some(open) if *open != found => Err(StoreError::unreachable(format!(
                "{} or its journal was removed or replaced while the program uses it: put it back, or restart \
                 the program",
                self.database.display()
            ))),
            _ => Ok(()),
        }
    }

    fn identities(&self) -> io::Result<[Option<FileIdentity>; 2]> {
        let journal = self.database.with_file_name(JOURNAL);
        Ok([FileIdentity::read(&self.database)?, FileIdentity::read(&journal)?])
    }

    /// Checks that the database is the one that was made here.
    pub(crate) fn check_id(&self, connection: &Connection) -> Result<(), StoreError> {
        let IdCheck::Of(id) = &self.id else {
            return Ok(());
        };
        let found = rows(connection, "SELECT mint FROM total", |row| row.get(0));
        let found: Vec<String> = self.check(found)?;
        match found.first() {
            Some(found) if found == id => Ok(()),
            Some(_) => Err(self.unusable_database(format!(
                "is not the database that was made here: restore that one from a copy, or remove the \
                 file `{ID_FILE}` if the other is meant"
            ))),
            None => Err(self.damaged("it does not say which store it is")),
        }
    }

    /// Writes the id of an accepted store, unless it is there.
    pub(crate) fn write_id(&self, id: &str) -> Result<(), StoreError> {
        if self.id == IdCheck::Of(id.to_owned()) {
            return Ok(());
        }
        let dir = self.dir();
        IdCheck::write(dir, id).map_err(|error| unusable(dir, &error))
    }

    /// Returns once whether its journal was broken.
    pub(crate) fn take_broken(&self) -> bool {
        self.is_broken.swap(false, Ordering::Relaxed)
    }

    fn dir(&self) -> &Path {
        self.database.parent().unwrap_or(Path::new("."))
    }

    /// Writes the journal once more, byte for byte. After a failed sync the system drops unwritten pages,
    /// and the next sync succeeds without them: new frames would follow a gap. After a crash it is
    /// unknown whether that happened.
    pub(crate) fn rewrite_journal(&self) -> Result<(), StoreError> {
        let rewritten = rewrite_file(&self.database.with_file_name(JOURNAL));
        rewritten.map_err(|error| StoreError::doubtful(format!("the disk of the job store failed: {error}")))
    }

    fn configure(&self, connection: &Connection) -> rusqlite::Result<()> {
        connection.busy_timeout(BUSY_TIMEOUT)?;
        // A refused database stays as it is, with its journal.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
        if self.database_length() == 0 {
            connection.pragma_update(None, "page_size", PAGE_BYTES)?;
            connection.pragma_update(None, "auto_vacuum", "incremental")?;
        }
        connection.pragma_update(None, "journal_mode", "wal")?;
        connection.pragma_update(None, "journal_size_limit", JOURNAL_BYTES)
    }

    fn database_length(&self) -> u64 {
        file_length(&self.database).unwrap_or(0)
    }

    /// Checks that the database has a write-ahead log. Without one, `SQLite` silently uses a journal under
    /// which a power cut may undo a commit; only the next connection sees that.
    fn check_journal_mode(&self, connection: &Connection) -> Result<(), StoreError> {
        let mode: String = self.read_pragma(connection, "journal_mode")?;
        match mode.as_str() {
            "wal" => Ok(()),
            other => Err(StoreError::unreachable(format!(
                "{} can only be kept with a journal of the kind {other}, which is not safe: choose a \
                 directory on a disk of this machine",
                self.database.display()
            ))),
        }
    }

    fn read_pragma<T: FromSql>(&self, connection: &Connection, pragma: &str) -> Result<T, StoreError> {
        self.check(connection.pragma_query_value(None, pragma, |row| row.get(0)))
    }

    /// Creates the tables of a new database, and refuses one that is not a job store of a known version.
    fn check_version(&self, connection: &Connection) -> Result<(), StoreError> {
        let read = |pragma: &str| self.read_pragma::<i64>(connection, pragma);
        match (read("application_id")?, read("user_version")?) {
            (0, 0) if read("schema_version")? == 0 && self.id.exists() => Err(self.emptied()),
            (0, 0) if read("schema_version")? == 0 => connection.execute_batch(schema::CREATE).map_err(failed),
            (schema::APPLICATION, 1..=schema::VERSION) => Ok(()),
            (schema::APPLICATION, later) => Err(self.unusable_database(format!(
                "is of version {later}, and this program knows up to {}: use a later one",
                schema::VERSION
            ))),
            _ => Err(self.unusable_database("is not a job store: choose another directory")),
        }
    }

    /// Upgrades a database of an earlier version, version by version.
    fn upgrade(&self, connection: &Connection) -> Result<(), StoreError> {
        let found: i64 = self.read_pragma(connection, "user_version")?;
        for (version, step) in (1..).zip(schema::UPGRADES) {
            if version >= found {
                connection.execute_batch(step).map_err(failed)?;
            }
        }
        Ok(())
    }

    /// Reads a small database completely. A large one is checked as it is read.
    fn quick_check(&self, connection: &Connection) -> Result<(), StoreError> {
        if self.database_length() > QUICK_CHECK_BYTES {
            return Ok(());
        }
        let first: String = self.read_pragma(connection, "quick_check")?;
        match first.as_str() {
            "ok" => Ok(()),
            words => Err(self.damaged(words)),
        }
    }

    /// Converts an error during opening.
    pub(crate) fn check<T>(&self, result: rusqlite::Result<T>) -> Result<T, StoreError> {
        result.map_err(|error| {
            if is_damage(&error) {
                self.damaged(error)
            } else {
                failed(error)
            }
        })
    }

    fn damaged(&self, words: impl Display) -> StoreError {
        self.unusable_database(format!(
            "is damaged ({words}): nothing was changed; keep a copy, then restore a backup or try \
             `sqlite3 jobs.db .recover`"
        ))
    }

    fn emptied(&self) -> StoreError {
        self.unusable_database(format!(
            "is empty or gone, and it held a job store: nothing was changed; restore it from a copy, or \
             remove the directory {} to start without the jobs and results that were in it",
            self.dir().display()
        ))
    }

    fn unusable_database(&self, words: impl Display) -> StoreError {
        StoreError::damaged(format!("{} {words}", self.database.display()))
    }
}

fn unusable(dir: &Path, error: &io::Error) -> StoreError {
    StoreError::unreachable(format!(
        "the directory {} cannot be used for jobs: {error}",
        dir.display()
    ))
}

/// The database, with its journal next to it.
const DATABASE: &str = "jobs.db";

/// The journal, as `SQLite` names it.
const JOURNAL: &str = "jobs.db-wal";

/// The file whose lock says that a process uses the store.
const LOCK: &str = "lock";

/// Half of the default: a small transaction writes whole pages, with fewer bytes of other rows.
const PAGE_BYTES: u32 = 2_048;

/// The size to which the journal shrinks after a burst.
const JOURNAL_BYTES: u32 = 16 * 1_024 * 1_024;

/// All statements in use, so that none is parsed twice.
const STATEMENTS: usize = 64;

/// Only a backup competes with the writer.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// A database of this size is read in a few hundredths of a second.
const QUICK_CHECK_BYTES: u64 = 16 * 1_024 * 1_024;
