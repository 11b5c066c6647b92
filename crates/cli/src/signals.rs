//! When somebody wants the program to end: Ctrl-C, or a supervisor's signal.

use anyhow::Context;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// The signals that end the program, heard from when this is made.
pub(crate) struct ShutdownSignals {
    pressed: Signal,
    terminated: Signal,
}

impl ShutdownSignals {
    /// Begins to listen. From then on a signal does not kill the process any more.
    pub(crate) fn listen() -> anyhow::Result<Self> {
        let heard = |kind| signal(kind).context("signals cannot be heard");
        Ok(Self {
            pressed: heard(SignalKind::interrupt())?,
            terminated: heard(SignalKind::terminate())?,
        })
    }

    /// Waits for one.
    pub(crate) async fn wait(&mut self) {
        tokio::select! {
            _ = self.pressed.recv() => {}
            _ = self.terminated.recv() => {}
        }
    }
}
