//! Where the server is, and how it is talked to.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use redis::{Client, IntoConnectionInfo};

use super::tls;
use crate::error::StoreError;

/// Which server keeps the jobs, under which name, and how long an answer may take.
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
    /// Where it is: `redis://user:password@host:port/db`, the same with `rediss://` for TLS, or
    /// `redis+unix://path`.
    pub url: String,
    /// The certificates of the authorities, as PEM, of which one vouches for the server: the only ones
    /// that are trusted. Nothing if the server's certificate is one that this machine trusts anyway.
    pub ca_file: Option<PathBuf>,
    /// What all keys begin with, in braces, so that a cluster keeps them in one place. Machines that
    /// share limits and jobs use the same.
    pub queue: String,
    /// How long a call may take in all. Longer than a pause of the server that is worth waiting for, and
    /// shorter than a lease.
    pub timeout: Duration,
    /// How many replicas must have what was submitted or settled before that is answered.
    pub wait_replicas: Option<ReplicaWait>,
}

/// Copies that are waited for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReplicaWait {
    /// So many.
    pub count: u32,
    /// For so long. What is not confirmed by then is doubtful.
    pub timeout: Duration,
}

impl RedisOptions {
    /// The queue `outflow` on the server at this address, with two seconds for a call.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            ca_file: None,
            queue: USUAL_QUEUE.to_owned(),
            timeout: USUAL_TIMEOUT,
            wait_replicas: None,
        }
    }

    pub(super) fn check(&self) -> Result<(), StoreError> {
        let odd =
            |letter: char| letter.is_whitespace() || letter.is_control() || "{}".contains(letter);
        if self.queue.is_empty() || self.queue.len() > MOST_QUEUE || self.queue.contains(odd) {
            return Err(StoreError::refused(
                "the queue's name goes into every key: use 1 to 64 letters, digits and - _ .",
            ));
        }
        if self.timeout.is_zero() {
            return Err(StoreError::refused(
                "a call needs time: use a timeout such as 2s",
            ));
        }
        if self
            .wait_replicas
            .is_some_and(|wait| wait.timeout >= self.timeout)
        {
            return Err(StoreError::refused(
                "waiting for replicas must end before the call does: use less than its timeout",
            ));
        }
        Ok(())
    }

    /// The client's own words about a bad address may repeat it, with the password.
    pub(super) fn client(&self) -> Result<Client, StoreError> {
        let info = self.url.as_str().into_connection_info();
        let info = info.map_err(|_| StoreError::refused(tls::UNREADABLE))?;
        tls::client(info, self.ca_file.as_deref())
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

const USUAL_QUEUE: &str = "outflow";

/// A server that answers within a millisecond and is silent for two seconds is ill.
const USUAL_TIMEOUT: Duration = Duration::from_secs(2);

/// It is repeated in every key.
const MOST_QUEUE: usize = 64;
