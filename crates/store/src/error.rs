//! Why a store could not do what it was asked.

use std::fmt;

/// Why a store could not do what it was asked. Nothing was half done: either all of a step happened or
/// none of it, and after [`is_doubtful`](Self::is_doubtful) nobody knows which.
#[derive(Debug)]
pub struct StoreError {
    kind: StoreErrorKind,
    words: String,
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
    /// It cannot be reached; nothing was changed.
    pub fn unreachable(words: impl fmt::Display) -> Self {
        Self::new(StoreErrorKind::Unreachable, words)
    }

    /// It did not answer in time, and may or may not have done it.
    pub fn doubtful(words: impl fmt::Display) -> Self {
        Self::new(StoreErrorKind::Doubtful, words)
    }

    /// There is no room left: on the disk, or in the server's memory.
    pub fn full(words: impl fmt::Display) -> Self {
        Self::new(StoreErrorKind::Full, words)
    }

    /// What it keeps cannot be read: damaged, of a later version, or somebody else's.
    pub fn damaged(words: impl fmt::Display) -> Self {
        Self::new(StoreErrorKind::Damaged, words)
    }

    /// What it kept is gone.
    pub fn lost(words: impl fmt::Display) -> Self {
        Self::new(StoreErrorKind::Lost, words)
    }

    /// Somebody else has it.
    pub fn in_use(words: impl fmt::Display) -> Self {
        Self::new(StoreErrorKind::InUse, words)
    }

    /// It was closed.
    pub fn closed() -> Self {
        Self::new(StoreErrorKind::Closed, "the job store is closed")
    }

    /// It cannot do this as things are.
    pub fn refused(words: impl fmt::Display) -> Self {
        Self::new(StoreErrorKind::Refused, words)
    }

    /// Copies the error for another caller of the same step.
    pub(crate) fn copy(&self) -> Self {
        Self::new(self.kind, &self.words)
    }

    fn new(kind: StoreErrorKind, words: impl fmt::Display) -> Self {
        Self {
            kind,
            words: words.to_string(),
        }
    }

    /// Whether the same may succeed later without anybody's help.
    pub const fn is_passing(&self) -> bool {
        matches!(
            self.kind,
            StoreErrorKind::Unreachable | StoreErrorKind::Doubtful | StoreErrorKind::Full
        )
    }

    /// Whether it may have happened all the same. Every step can be asked for again: a submission is
    /// known by the names of its jobs, a settlement by its token.
    pub const fn is_doubtful(&self) -> bool {
        matches!(self.kind, StoreErrorKind::Doubtful)
    }

    /// Whether there was no room left.
    pub const fn is_full(&self) -> bool {
        matches!(self.kind, StoreErrorKind::Full)
    }

    /// Whether what is kept cannot be read, or is gone.
    pub const fn is_damaged(&self) -> bool {
        matches!(self.kind, StoreErrorKind::Damaged | StoreErrorKind::Lost)
    }

    /// Whether all that was kept is gone. The store goes on with nothing in a moment; whoever told it
    /// something, jobs or rules, has to tell it again.
    pub const fn is_lost(&self) -> bool {
        matches!(self.kind, StoreErrorKind::Lost)
    }

    /// Whether the store is there and cannot do this very step, while it may do others: something stands in its
    /// way, such as a key of somebody else's.
    pub const fn is_stuck(&self) -> bool {
        matches!(self.kind, StoreErrorKind::Damaged | StoreErrorKind::Refused)
    }

    /// Whether somebody else has it.
    pub const fn is_in_use(&self) -> bool {
        matches!(self.kind, StoreErrorKind::InUse)
    }

    /// Whether the request itself was at fault.
    pub const fn is_refused(&self) -> bool {
        matches!(self.kind, StoreErrorKind::Refused)
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words)
    }
}

impl std::error::Error for StoreError {}
