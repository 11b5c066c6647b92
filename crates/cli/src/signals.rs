//! Signals of the program: Ctrl-C or SIGTERM shut it down, SIGHUP reloads its configuration.

use anyhow::Context;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Keeps SIGHUP from ending a process that reloads on it. A supervisor may send one at any time, and by default
/// the signal kills until the program listens for it.
///
/// The handler stays for the life of the process, so the runtime that installs it may end.
pub(crate) fn survive_hangups() -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build();
    let runtime = runtime.context("no runtime can be started")?;
    let _inside = runtime.enter();
    let registered = signal(SignalKind::hangup());
    registered.map(drop).context("cannot receive signals")
}

/// Receiver of the signals that shut the program down.
pub(crate) struct ShutdownSignals {
    interrupted: Signal,
    terminated: Signal,
}

impl ShutdownSignals {
    /// Starts to receive. From then on these signals no longer kill the process.
    pub(crate) fn listen() -> anyhow::Result<Self> {
        let receive = |kind| signal(kind).context("cannot receive signals");
        Ok(Self {
            interrupted: receive(SignalKind::interrupt())?,
            terminated: receive(SignalKind::terminate())?,
        })
    }

    /// Waits for the next signal.
    pub(crate) async fn wait(&mut self) {
        tokio::select! {
            _ = self.interrupted.recv() => {}
            _ = self.terminated.recv() => {}
        }
    }
}
