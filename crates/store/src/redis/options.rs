//! Connection options: server, queue and timeouts.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use crate::error::StoreError;

/// Server, queue name and timeouts of a Redis store.
///
/// ```
/// use outflow_store::RedisOptions;
///
/// let options = RedisOptions::new("redis://:secret@127.0.0.1:6379/");
/// assert_eq!(options.queue, "outflow");
/// assert!(!format!("{options:?}").contains("secret"));
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct RedisOptions {
    /// Address: `redis://user:password@host:port/db`, `rediss://` for TLS, or `redis+unix://path`. Several hosts are
    /// separated by commas: servers of which one is the primary, or nodes of a cluster. With `?sentinel=NAME` they
    /// are Sentinels that know the primary of this name.
    pub url: String,
    /// PEM file with the only certificate authorities to trust. Without it, the authorities of this
    /// machine are trusted.
    pub ca_file: Option<PathBuf>,
    /// Prefix of all keys, in braces, so that a cluster keeps them on one node. Machines that share
    /// limits and jobs use one name.
    pub queue: String,
    /// Timeout of a whole call. Choose it longer than a tolerable pause of the server, and shorter
    /// than a lease.
    pub timeout: Duration,
    /// Replicas that must confirm a submission or settlement before the store answers.
    pub wait_replicas: Option<ReplicaWait>,
}

/// Number of replicas to wait for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReplicaWait {
    /// Replicas that must confirm.
    pub count: u32,
    /// Time limit; the result of a write without confirmation is doubtful.
    pub timeout: Duration,
}

impl RedisOptions {
    /// Creates options for the queue `outflow` at this address, with a timeout of two seconds.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            ca_file: None,
            queue: DEFAULT_QUEUE.to_owned(),
            timeout: DEFAULT_TIMEOUT,
            wait_replicas: None,
        }
    }

    pub(super) fn check(&self) -> Result<(), StoreError> {
        let odd = |letter: char| letter.is_whitespace() || letter.is_control() || "{}".contains(letter);
        if self.queue.is_empty() || self.queue.len() > MAX_QUEUE_NAME || self.queue.contains(odd) {
            return Err(StoreError::refused(
                "the queue's name goes into every key: use 1 to 64 letters, digits and - _ .",
            ));
        }
        if self.timeout.is_zero() {
            return Err(StoreError::refused("a call needs time: use a timeout such as 2s"));
        }
        if self.wait_replicas.is_some_and(|wait| wait.timeout >= self.timeout) {
            return Err(StoreError::refused(
                "waiting for replicas must end before the call does: use less than its timeout",
            ));
        }
        Ok(())
    }

    /// Returns the beginning of all keys.
    pub(super) fn prefix(&self) -> String {
        format!("{{{}}}:", self.queue)
    }
}

impl fmt::Debug for RedisOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisOptions")
            .field("url", &"(hidden)")
            .field("ca_file", &self.ca_file)
            .field("queue", &self.queue)
            .field("timeout", &self.timeout)
            .field("wait_replicas", &self.wait_replicas)
            .finish()
    }
}

const DEFAULT_QUEUE: &str = "outflow";

/// A server that usually answers within a millisecond is broken after two seconds.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(2);

/// The name is repeated in every key.
const MAX_QUEUE_NAME: usize = 64;
