//! Error of opening a cache.

use std::fmt;

/// Error of opening a cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum CacheError {
    /// The memory is too small to store anything.
    TooSmall,
    /// The path is not a directory, perhaps a link.
    NotADirectory,
    /// Another user owns the directory, or others can read it and it holds foreign files.
    NotOurs,
    /// The system provides no random bytes for the secret that separates callers.
    NoRandomness,
}

impl fmt::Display for CacheError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TooSmall => "the cache is too small to store anything: set 64 KiB or more",
            Self::NotADirectory => "the cache directory is a link or a file: set a directory or a new path",
            Self::NotOurs => {
                "the cache directory is not private to this user: set an empty one, or remove access for others"
            }
            Self::NoRandomness => "the system provides no random bytes: turn the cache off",
        })
    }
}

impl std::error::Error for CacheError {}
