//! A bound on waiting for another process.
//!
//! It uses real time, like other processes.

use std::io;
use std::thread;
use std::time::{Duration, Instant};

/// Instant at which waiting ends.
#[derive(Clone, Copy, Debug)]
pub struct Deadline {
    at: Instant,
}

impl Deadline {
    /// Creates a deadline after this time.
    #[expect(clippy::disallowed_methods, reason = "processes live in real time")]
    pub fn within(span: Duration) -> Self {
        Self {
            at: Instant::now() + span,
        }
    }

    /// Returns the remaining time.
    #[expect(clippy::disallowed_methods, reason = "processes live in real time")]
    pub fn remaining(self) -> Duration {
        self.at.saturating_duration_since(Instant::now())
    }

    /// Polls until there is a result or an error; nothing if the time is over before.
    ///
    /// # Errors
    /// The error of the poll.
    #[expect(
        clippy::disallowed_methods,
        reason = "no notification says that a process is ready, so it is polled"
    )]
    pub fn poll<T>(self, mut ask: impl FnMut() -> io::Result<Option<T>>) -> io::Result<Option<T>> {
        loop {
            let late = self.remaining().is_zero();
            if let Some(answer) = ask()? {
                return Ok(Some(answer));
            }
            if late {
                return Ok(None);
            }
            thread::sleep(POLL_INTERVAL);
        }
    }
}

/// Short compared with the start of any process, long compared with a poll.
const POLL_INTERVAL: Duration = Duration::from_millis(2);
