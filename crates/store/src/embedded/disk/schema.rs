//! Tables of the database, and the upgrades from earlier versions.

/// Creates the tables of a new database.
pub(crate) const CREATE: &str = include_str!("schema.sql");

/// `Outf` in letters: identifies the file.
pub(crate) const APPLICATION: i64 = 0x4f75_7466;

/// The version of the tables.
pub(crate) const VERSION: i64 = 3;

/// The upgrades from version 1 on.
pub(crate) const UPGRADES: [&str; 2] = [FROM_1_TO_2, FROM_2_TO_3];

/// Version 2 keeps the last error of a failed job.
const FROM_1_TO_2: &str = "BEGIN; ALTER TABLE outcome ADD COLUMN words TEXT; \
                           PRAGMA user_version = 2; COMMIT;";

/// Version 3 keeps checksums; earlier rows have none.
const FROM_2_TO_3: &str = "BEGIN; ALTER TABLE job ADD COLUMN sum INTEGER; \
                           ALTER TABLE dead ADD COLUMN sum INTEGER; \
                           PRAGMA user_version = 3; COMMIT;";
