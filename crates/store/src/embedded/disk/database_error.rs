//! Errors of the database, as errors of the store.

use rusqlite::ErrorCode;

use crate::error::StoreError;

/// Converts an error of the database.
pub(crate) fn failed(error: rusqlite::Error) -> StoreError {
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => StoreError::full(
            "the disk of the job store is full: make room, and ask again; of this request nothing was kept",
        ),
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
            StoreError::damaged(format!("the job store is damaged: {error}"))
        }
        // A commit whose sync failed may be complete after the next start.
        Some(ErrorCode::SystemIoFailure) => StoreError::doubtful(format!("the disk of the job store failed: {error}")),
        None if is_malformed(&error) => StoreError::damaged(format!("the job store is damaged: {error}")),
        _ => StoreError::unreachable(format!("the job store cannot be used: {error}")),
    }
}

/// Returns true if an error during opening means that the database is damaged. The statements are
/// constant: a missing table or column was there when the database was made.
pub(crate) fn is_damage(error: &rusqlite::Error) -> bool {
    match error.sqlite_error_code() {
        Some(code) => matches!(
            code,
            ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase | ErrorCode::Unknown
        ),
        None => matches!(error, rusqlite::Error::SqlInputError { .. }) || is_malformed(error),
    }
}

/// Returns true if a row is incomplete, or a column holds a value that the store never writes.
fn is_malformed(error: &rusqlite::Error) -> bool {
    matches!(
        error,
        rusqlite::Error::InvalidColumnType(..)
            | rusqlite::Error::FromSqlConversionFailure(..)
            | rusqlite::Error::IntegralValueOutOfRange(..)
            | rusqlite::Error::Utf8Error(..)
            | rusqlite::Error::QueryReturnedNoRows
    )
}
