//! A connection that can be taken over from the HTTP library.
//!
//! The library owns the stream it serves and never returns it. So it gets a handle, and a fault is
//! written through another one after the library was dropped.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use outflow_sync::{Mutex, MutexGuard};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::time::sleep;

use crate::fault::{FaultPlan, Then};

/// Handle of a stream, and the function that makes its end a reset.
pub(crate) struct HijackedIo<I> {
    io: Arc<Mutex<I>>,
    harden: fn(&I),
}

impl<I> Clone for HijackedIo<I> {
    fn clone(&self) -> Self {
        Self {
            io: Arc::clone(&self.io),
            harden: self.harden,
        }
    }
}

impl<I> HijackedIo<I> {
    /// Builds a handle. `harden` makes the drop of the stream a reset, where possible.
    pub(crate) fn new(io: I, harden: fn(&I)) -> Self {
        Self {
            io: Arc::new(Mutex::new(io)),
            harden,
        }
    }

    fn lock(&self) -> MutexGuard<'_, I> {
        self.io.lock()
    }
}

impl<I: AsyncRead + AsyncWrite + Unpin> HijackedIo<I> {
    /// Carries out a fault. The other end may close at any time. Returns true if it used the connection again.
    pub(crate) async fn play(mut self, plan: FaultPlan) -> bool {
        if self.write_all(&plan.bytes).await.is_err() || self.flush().await.is_err() {
            return false;
        }
        match plan.then {
            Then::Reset => (self.harden)(&self.lock()),
            Then::Close => drop(self.shutdown().await),
            Then::Hold => return self.hold().await,
            Then::Repeat { line, every } => {
                while self.write_all(&line).await.is_ok() && self.flush().await.is_ok() {
                    sleep(every).await;
                }
            }
        }
        false
    }

    async fn hold(&mut self) -> bool {
        let mut sent_more = false;
        let mut more = [0; 1024];
        while let Ok(1..) = self.read(&mut more).await {
            sent_more = true;
        }
        sent_more
    }
}

impl<I: AsyncRead + Unpin> AsyncRead for HijackedIo<I> {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.lock()).poll_read(context, buffer)
    }
}

impl<I: AsyncWrite + Unpin> AsyncWrite for HijackedIo<I> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut *self.lock()).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut *self.lock()).poll_write_vectored(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.lock().is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.lock()).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.lock()).poll_shutdown(context)
    }
}
