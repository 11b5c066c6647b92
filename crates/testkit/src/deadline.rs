//! A bound on waiting for what is not ours to wake us: another process.
//!
//! In real time, because other processes live in it.

use std::io;
use std::thread;
use std::time::{Duration, Instant};

/// An instant after which nobody waits any more.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline {
    at: Instant,
}

impl Deadline {
    #[expect(clippy::disallowed_methods, reason = "processes live in real time")]
    pub(crate) fn within(span: Duration) -> Self {
        Self {
            at: Instant::now() + span,
        }
    }

    /// What is left until then.
    #[expect(clippy::disallowed_methods, reason = "processes live in real time")]
    pub(crate) fn remaining(self) -> Duration {
        self.at.saturating_duration_since(Instant::now())
    }

    /// Asks again and again until there is an answer or an error.
    #[expect(
        clippy::disallowed_methods,
        reason = "nothing tells a parent that a process is ready, so it has to look"
    )]
    pub(crate) fn poll<T>(
        self,
        mut ask: impl FnMut() -> io::Result<Option<T>>,
    ) -> io::Result<Option<T>> {
        loop {
            let late = self.remaining().is_zero();
            if let Some(answer) = ask()? {
                return Ok(Some(answer));
            }
            if late {
                return Ok(None);
            }
            thread::sleep(BETWEEN_LOOKS);
        }
    }
}

/// Short beside the start of any process, long beside a look.
const BETWEEN_LOOKS: Duration = Duration::from_millis(2);
