//! The threads of a ledger.
//!
//! A ledger works in processes without an async runtime, so it starts threads by itself. Each of them ends with
//! the queue that it reads, and none waits for another.

use std::io;

/// Starts a thread of this name.
///
/// # Errors
/// If the system gives none.
#[expect(
    clippy::disallowed_methods,
    reason = "a ledger works without a runtime; its threads end with their queues"
)]
pub(crate) fn start(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    std::thread::Builder::new().name(name.to_owned()).spawn(work)?;
    Ok(())
}
