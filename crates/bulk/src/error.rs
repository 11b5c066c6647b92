//! The engine's error.

use std::fmt;

use outflow_store::StoreError;

/// Failure of a request to the engine.
#[derive(Debug)]
pub struct BulkError {
    kind: BulkErrorKind,
}

#[derive(Debug)]
enum BulkErrorKind {
    Invalid(String),
    Store(StoreError),
    Stopping,
}

impl BulkError {
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self {
            kind: BulkErrorKind::Invalid(message.into()),
        }
    }

    pub(crate) const fn stopping() -> Self {
        Self {
            kind: BulkErrorKind::Stopping,
        }
    }

    /// Returns true if the request is invalid as it is.
    pub const fn is_invalid(&self) -> bool {
        matches!(self.kind, BulkErrorKind::Invalid(_))
    }

    /// Returns true if a later request may succeed without a change.
    pub fn is_passing(&self) -> bool {
        self.store().is_some_and(StoreError::is_passing)
    }

    /// Converts into the store's error, if the store failed.
    pub fn into_store(self) -> Option<StoreError> {
        match self.kind {
            BulkErrorKind::Store(error) => Some(error),
            BulkErrorKind::Invalid(_) | BulkErrorKind::Stopping => None,
        }
    }

    /// Returns the store's error, if the store failed.
    pub const fn store(&self) -> Option<&StoreError> {
        match &self.kind {
            BulkErrorKind::Store(error) => Some(error),
            BulkErrorKind::Invalid(_) | BulkErrorKind::Stopping => None,
        }
    }
}

impl From<StoreError> for BulkError {
    fn from(error: StoreError) -> Self {
        Self {
            kind: BulkErrorKind::Store(error),
        }
    }
}

impl fmt::Display for BulkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            BulkErrorKind::Invalid(message) => f.write_str(message),
            BulkErrorKind::Store(error) => error.fmt(f),
            BulkErrorKind::Stopping => f.write_str("the engine is stopping: submit to it when it is back"),
        }
    }
}

impl std::error::Error for BulkError {}
