//! Why the engine could not do what it was asked.

use std::fmt;

use outflow_store::StoreError;

/// Why the engine could not do what it was asked.
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
    pub(crate) fn invalid(words: impl Into<String>) -> Self {
        Self {
            kind: BulkErrorKind::Invalid(words.into()),
        }
    }

    pub(crate) const fn stopping() -> Self {
        Self {
            kind: BulkErrorKind::Stopping,
        }
    }

    /// Whether what was asked for cannot be done as it was written.
    pub const fn is_invalid(&self) -> bool {
        matches!(self.kind, BulkErrorKind::Invalid(_))
    }

    /// Whether the same may succeed later without anybody's help.
    pub const fn is_passing(&self) -> bool {
        match &self.kind {
            BulkErrorKind::Store(error) => error.is_passing(),
            BulkErrorKind::Invalid(_) | BulkErrorKind::Stopping => false,
        }
    }

    /// What the store said, if it was the store, to be passed on.
    pub fn into_store(self) -> Option<StoreError> {
        match self.kind {
            BulkErrorKind::Store(error) => Some(error),
            BulkErrorKind::Invalid(_) | BulkErrorKind::Stopping => None,
        }
    }

    /// What the store said, if it was the store.
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
            BulkErrorKind::Invalid(words) => f.write_str(words),
            BulkErrorKind::Store(error) => error.fmt(f),
            BulkErrorKind::Stopping => {
                f.write_str("the engine is stopping: submit to it when it is back")
            }
        }
    }
}

impl std::error::Error for BulkError {}
