//! Signals that shut the program down: Ctrl-C, or SIGTERM of a service manager.

use anyhow::Context;
use tokio::signal::unix::{Signal, SignalKind, signal};

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
