//! Why a cache could not be opened.

use std::fmt;

/// Why a cache could not be opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum CacheError {
    /// There is too little memory to keep anything.
    TooSmall,
    /// The directory's path leads to something else, perhaps a link.
    NotADirectory,
    /// The directory belongs to somebody else, or others may read it and it holds other things.
    NotOurs,
    /// The system gives no random bytes, without which callers cannot be told apart safely.
    NoRandomness,
}

impl fmt::Display for CacheError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TooSmall => "the cache is too small to keep anything: give it 64 KiB or more",
            Self::NotADirectory => {
                "the cache's directory is a link or a file: name a directory or a new path"
            }
            Self::NotOurs => {
                "the cache's directory is not this user's alone: name an empty one, or close it to others"
            }
            Self::NoRandomness => "the system gives no random bytes: turn the cache off",
        })
    }
}

impl std::error::Error for CacheError {}
