//! Tables of the database, and the upgrades from earlier versions.

/// Creates the tables of a new database.
pub(crate) const CREATE: &str = include_str!("schema.sql");

/// `Outf` in letters: identifies the file.
pub(crate) const APPLICATION: i64 = 0x4f75_7466;

/// The version of the tables.
pub(crate) const VERSION: i64 = 4;

/// The upgrades from version 1 on.
pub(crate) const UPGRADES: [&str; 3] = [FROM_1_TO_2, FROM_2_TO_3, FROM_3_TO_4];

/// Version 2 keeps the last error of a failed job.
const FROM_1_TO_2: &str = "BEGIN; ALTER TABLE outcome ADD COLUMN words TEXT; \
                           PRAGMA user_version = 2; COMMIT;";

/// Version 3 keeps checksums; earlier rows have none.
const FROM_2_TO_3: &str = "BEGIN; ALTER TABLE job ADD COLUMN sum INTEGER; \
                           ALTER TABLE dead ADD COLUMN sum INTEGER; \
                           PRAGMA user_version = 3; COMMIT;";

/// Version 4 names a table and a column after the glossary.
const FROM_3_TO_4: &str = "BEGIN; DROP INDEX mishap_of; ALTER TABLE mishap RENAME TO attempt_error; \
                           CREATE INDEX attempt_error_of ON attempt_error (seq); \
                           ALTER TABLE action RENAME COLUMN told TO notified; \
                           PRAGMA user_version = 4; COMMIT;";
