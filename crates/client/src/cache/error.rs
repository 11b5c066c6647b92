//! Error of opening a cache.

outflow_core::error_enum! {
    /// Error of opening a cache.
    #[non_exhaustive]
    pub enum CacheError {
        /// The memory is too small to store anything.
        TooSmall = "the cache is too small to store anything: set 64 KiB or more",
        /// The path is not a directory, perhaps a link.
        NotADirectory = "the cache directory is a link or a file: set a directory or a new path",
        /// Another user owns the directory, or others can read it and it holds foreign files.
        NotOurs = "the cache directory is not private to this user: set an empty one, or remove access for others",
        /// The system provides no random bytes for the secret that separates callers.
        NoRandomness = "the system provides no random bytes: turn the cache off",
    }
}
