//! One end of a connection.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};

use super::pipe::{Pipe, ReadResult};

/// End of a connection over a [`VirtualNet`](super::VirtualNet). Dropping it closes it, which the
/// other end sees a delay later.
pub struct VirtualStream {
    reads: Arc<Pipe>,
    writes: Arc<Pipe>,
    alarm: Option<Pin<Box<Sleep>>>,
}

impl VirtualStream {
    pub(super) fn new(reads: Arc<Pipe>, writes: Arc<Pipe>) -> Self {
        Self {
            reads,
            writes,
            alarm: None,
        }
    }

    /// Breaks the connection: the other end sees a reset a delay later, and its unread bytes are
    /// lost.
    pub fn reset(self) {
        let at = self.writes.arrival();
        self.writes.break_at(at);
        self.reads.break_at(at);
    }

    fn poll_alarm(&mut self, at: Instant, context: &mut Context<'_>) -> Poll<()> {
        let alarm = self.alarm.get_or_insert_with(|| Box::pin(sleep_until(at)));
        if alarm.deadline() != at {
            alarm.as_mut().reset(at);
        }
        alarm.as_mut().poll(context)
    }
}

impl AsyncRead for VirtualStream {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        loop {
            match this.reads.read(context, into)? {
                ReadResult::Bytes => return Poll::Ready(Ok(())),
                ReadResult::Nothing(None) => return Poll::Pending,
                ReadResult::Nothing(Some(at)) => match this.poll_alarm(at, context) {
                    Poll::Ready(()) => this.alarm = None,
                    Poll::Pending => return Poll::Pending,
                },
            }
        }
    }
}

impl AsyncWrite for VirtualStream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.writes.write(context, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.writes.finish();
        Poll::Ready(Ok(()))
    }
}

impl Drop for VirtualStream {
    fn drop(&mut self) {
        self.writes.finish();
        self.reads.close_reader(self.writes.arrival());
    }
}

impl fmt::Debug for VirtualStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VirtualStream").finish_non_exhaustive()
    }
}
