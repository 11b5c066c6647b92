//! Errors of a store.

use std::fmt;

/// An error of a store. A step happens completely or not at all; after
/// [`is_doubtful`](Self::is_doubtful) it is unknown which.
#[derive(Debug)]
pub struct StoreError {
    kind: StoreErrorKind,
    message: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum StoreErrorKind {
    Unreachable,
    Doubtful,
    Full,
    Damaged,
    Lost,
    InUse,
    Closed,
    Refused,
}

impl StoreError {
    /// The store cannot be reached; nothing was changed.
    pub fn unreachable(message: impl fmt::Display) -> Self {
        Self::new(StoreErrorKind::Unreachable, message)
    }

    /// The store did not respond in time, and may or may not have done the step.
    pub fn doubtful(message: impl fmt::Display) -> Self {
        Self::new(StoreErrorKind::Doubtful, message)
    }

    /// The disk or the server's memory is full.
    pub fn full(message: impl fmt::Display) -> Self {
        Self::new(StoreErrorKind::Full, message)
    }

    /// The data cannot be read: damaged, of a later version, or not a job store.
    pub fn damaged(message: impl fmt::Display) -> Self {
        Self::new(StoreErrorKind::Damaged, message)
    }

    /// The data is gone.
    pub fn lost(message: impl fmt::Display) -> Self {
        Self::new(StoreErrorKind::Lost, message)
    }

    /// Another process uses the store.
    pub fn in_use(message: impl fmt::Display) -> Self {
        Self::new(StoreErrorKind::InUse, message)
    }

    /// The store was closed.
    pub fn closed() -> Self {
        Self::new(StoreErrorKind::Closed, "the job store is closed")
    }

    /// The store cannot do this in its present state.
    pub fn refused(message: impl fmt::Display) -> Self {
        Self::new(StoreErrorKind::Refused, message)
    }

    /// Copies the error for another caller of the same step.
    pub(crate) fn copy(&self) -> Self {
        Self::new(self.kind, &self.message)
    }

    fn new(kind: StoreErrorKind, message: impl fmt::Display) -> Self {
        Self {
            kind,
            message: message.to_string(),
        }
    }

    /// Returns true if the same step may succeed later without an operator.
    pub const fn is_passing(&self) -> bool {
        matches!(
            self.kind,
            StoreErrorKind::Unreachable | StoreErrorKind::Doubtful | StoreErrorKind::Full
        )
    }

    /// Returns true if the step may have happened. Every step can be repeated: a submission is known by
    /// the names of its jobs, a settlement by its token.
    pub const fn is_doubtful(&self) -> bool {
        matches!(self.kind, StoreErrorKind::Doubtful)
    }

    /// Returns true if the store was full.
    pub const fn is_full(&self) -> bool {
        matches!(self.kind, StoreErrorKind::Full)
    }

    /// Returns true if the data cannot be read, or is gone.
    pub const fn is_damaged(&self) -> bool {
        matches!(self.kind, StoreErrorKind::Damaged | StoreErrorKind::Lost)
    }

    /// Returns true if all data is gone. The store continues empty after a moment; jobs and rules must
    /// be submitted again.
    pub const fn is_lost(&self) -> bool {
        matches!(self.kind, StoreErrorKind::Lost)
    }

    /// Returns true if the store responds and cannot do this step, while it may do others: for example
    /// because of a foreign key.
    pub const fn is_stuck(&self) -> bool {
        matches!(self.kind, StoreErrorKind::Damaged | StoreErrorKind::Refused)
    }

    /// Returns true if another process uses the store.
    pub const fn is_in_use(&self) -> bool {
        matches!(self.kind, StoreErrorKind::InUse)
    }

    /// Returns true if the request itself was at fault.
    pub const fn is_refused(&self) -> bool {
        matches!(self.kind, StoreErrorKind::Refused)
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for StoreError {}
