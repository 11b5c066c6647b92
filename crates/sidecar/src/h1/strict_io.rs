//! Connection whose requests pass the framing check before hyper parses them.
//!
//! Valid bytes go straight into hyper's buffer; only a head that arrives in pieces is held until it is
//! complete. Hyper never sees an invalid head. It gets a synthetic request that names the error instead, so
//! that the rejection takes the path of every other response, after those to earlier requests. A client that
//! sends such a request itself is rejected as well.
//!
//! After a rejection no further request is read. Later bytes are discarded for a moment before the connection
//! closes: closing with unread bytes would reset it, and the rejection would be lost.
//!
//! Hyper does not read while a body waits unread, so it does not notice that the client has closed. The
//! connection looks for that itself, at intervals. The next flush fails then, and the call leaves its wait queue.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use outflow_listener::InboundConnection;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

use super::framing::{Framing, FramingError, HeadLimits, HeldBytes, ScanResult};
use crate::h2_frames::FrameCredit;
use crate::memory_cost::{HELD_FRAMES, HTTP2_BUFFERS, HeldMemory};

/// Connection with the framing check.
pub(crate) struct StrictIo {
    connection: InboundConnection,
    framing: Framing,
    /// Counts the frames of HTTP/2.
    frames: FrameCredit,
    /// Begin of an incomplete head.
    held: BytesMut,
    /// Memory of `held`, or of what HTTP/2 holds back.
    memory: HeldMemory,
    /// Valid bytes that hyper has not read yet.
    ready: Bytes,
    timeouts: IoTimeouts,
    /// Runs while a head is held.
    head_timer: Option<Pin<Box<Sleep>>>,
    /// Runs while the client takes none of the written bytes.
    write_timer: Option<Pin<Box<Sleep>>>,
    /// Runs while a body is unread; the flag is true if hyper has read since it began.
    close_timer: Option<Pin<Box<Sleep>>>,
    has_read: bool,
    phase: IoPhase,
}

/// Timeouts for the client.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IoTimeouts {
    /// Timeout for a head, from its first byte.
    pub(crate) head: Duration,
    /// Timeout until the client takes any of the written bytes.
    pub(crate) write: Duration,
}

enum IoPhase {
    Open,
    /// A body is invalid: its next read fails.
    BadBody(FramingError),
    /// The client floods the connection: its next read fails.
    Flooded,
    /// The synthetic request names the error; no bytes follow it.
    Rejected,
    /// The rejection is written: later bytes are discarded until then.
    Lingering(Pin<Box<Sleep>>),
}

impl StrictIo {
    pub(crate) fn new(
        connection: InboundConnection,
        limits: HeadLimits,
        timeouts: IoTimeouts,
        memory: HeldMemory,
    ) -> Self {
        Self {
            connection,
            framing: Framing::new(limits),
            frames: FrameCredit::default(),
            held: BytesMut::new(),
            memory,
            ready: Bytes::new(),
            timeouts,
            head_timer: None,
            write_timer: None,
            close_timer: None,
            has_read: false,
            phase: IoPhase::Open,
        }
    }

    /// Copies ready bytes into the buffer; returns true if there were any.
    fn copy_ready(&mut self, buf: &mut ReadBuf<'_>) -> bool {
        let next = self.ready.slice(..self.ready.len().min(buf.remaining()));
        let count = self.count_frames(&next);
        buf.put_slice(&self.ready.split_to(count));
        count > 0
    }

    /// Checks the new bytes of the buffer, after `before`, and removes those that hyper may not read yet.
    fn check(&mut self, buf: &mut ReadBuf<'_>, before: usize) {
        let arrived = buf.filled().get(before..).unwrap_or_default();
        let scanned = if self.held.is_empty() {
            let scanned = self.framing.scan(arrived);
            if scanned.rest == HeldBytes::Unfinished {
                let rest = arrived.get(scanned.passed..).unwrap_or_default();
                self.held.extend_from_slice(rest);
            }
            let passed = arrived.get(..scanned.passed).unwrap_or_default();
            let counted = self.count_frames(passed);
            self.ready = Bytes::copy_from_slice(passed.get(counted..).unwrap_or_default());
            buf.set_filled(before + counted);
            scanned
        } else {
            self.held.extend_from_slice(arrived);
            buf.set_filled(before);
            let scanned = self.framing.scan(&self.held);
            self.ready = self.held.split_to(scanned.passed).freeze();
            scanned
        };
        self.apply(scanned);
        let size = if self.framing.is_http2() {
            HTTP2_BUFFERS + HELD_FRAMES * self.frames.unfinished()
        } else {
            self.held.capacity()
        };
        if !self.memory.resize(size) {
            self.reject(FramingError::NoMemory);
        }
    }

    /// Counts frames, if these bytes are of HTTP/2. Its preface passes at once, so its first byte is the first here.
    /// Returns the number of bytes that may pass in this turn.
    fn count_frames(&mut self, bytes: &[u8]) -> usize {
        if !self.framing.is_http2() {
            return bytes.len();
        }
        self.frames.read(bytes).unwrap_or_else(|_| {
            self.phase = IoPhase::Flooded;
            0
        })
    }

    fn apply(&mut self, scanned: ScanResult) {
        match scanned.rest {
            HeldBytes::Nothing => {
                self.head_timer = None;
                self.held = BytesMut::new();
            }
            // The next head has its own timeout.
            HeldBytes::Unfinished if scanned.passed > 0 => self.head_timer = None,
            HeldBytes::Unfinished => {}
            HeldBytes::Invalid(error) => self.reject(error),
        }
    }

    fn reject(&mut self, error: FramingError) {
        self.head_timer = None;
        self.held = BytesMut::new();
        if !self.framing.is_in_head() {
            self.phase = IoPhase::BadBody(error);
            return;
        }
        self.phase = IoPhase::Rejected;
        let mut last = BytesMut::from(&*self.ready);
        last.extend_from_slice(REJECTED_REQUEST);
        last.extend_from_slice(error.name().as_bytes());
        last.extend_from_slice(b"\r\n\r\n");
        self.ready = last.freeze();
    }

    /// Waits until a head has taken too long. Between requests there is no head: the connection is idle.
    fn poll_head_timeout(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.held.is_empty() && !self.framing.is_before_first() {
            return Poll::Pending;
        }
        let timeout = self.timeouts.head;
        let timer = self
            .head_timer
            .get_or_insert_with(|| Box::pin(tokio::time::sleep(timeout)));
        timer.as_mut().poll(cx)
    }

    /// Waits until the client has closed, while hyper leaves a body unread. Bytes that hyper does not read hide
    /// the end from it.
    fn poll_closed(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if !self.framing.is_in_body() {
            self.close_timer = None;
            return Poll::Pending;
        }
        loop {
            let timer = self
                .close_timer
                .get_or_insert_with(|| Box::pin(tokio::time::sleep(CLOSE_POLL)));
            ready!(timer.as_mut().poll(cx));
            self.close_timer = None;
            // A reader finds the end itself, after the bytes before it.
            if !std::mem::take(&mut self.has_read) && self.connection.is_closed_by_peer() {
                return Poll::Ready(());
            }
        }
    }

    fn count_written(&mut self, written: &Poll<io::Result<usize>>) {
        if let Poll::Ready(Ok(bytes)) = written {
            self.frames.on_written(*bytes);
        }
    }

    /// Returns the result of a write, or an error after the timeout: a client that does not read occupies a
    /// connection to the API that others need.
    fn with_write_timeout<T>(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.write_timer = None;
            return written;
        }
        let timeout = self.timeouts.write;
        let timer = self
            .write_timer
            .get_or_insert_with(|| Box::pin(tokio::time::sleep(timeout)));
        ready!(timer.as_mut().poll(cx));
        self.connection.reset_when_closed();
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }

    /// Discards incoming bytes until the client has closed.
    fn poll_drained(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut buffer = [0; 4_096];
        loop {
            let mut buf = ReadBuf::new(&mut buffer);
            ready!(Pin::new(&mut self.connection).poll_read(cx, &mut buf))?;
            if buf.filled().is_empty() {
                return Poll::Ready(Ok(()));
            }
        }
    }
}

impl AsyncRead for StrictIo {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let me = self.get_mut();
        me.has_read = true;
        if me.frames.end_turn() {
            // Readers of bodies run before the library goes on.
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        loop {
            if me.copy_ready(buf) {
                return Poll::Ready(Ok(()));
            }
            match &me.phase {
                IoPhase::Open => {}
                IoPhase::BadBody(error) => {
                    let error = io::Error::new(io::ErrorKind::InvalidData, error.advice());
                    return Poll::Ready(Err(error));
                }
                IoPhase::Flooded => {
                    me.connection.reset_when_closed();
                    return Poll::Ready(Err(io::ErrorKind::InvalidData.into()));
                }
                IoPhase::Rejected | IoPhase::Lingering(_) => {
                    // Hyper takes an end for a client that does not want its response.
                    let _closed = me.poll_drained(cx);
                    return Poll::Pending;
                }
            }
            let before = buf.filled().len();
            match Pin::new(&mut me.connection).poll_read(cx, buf) {
                Poll::Ready(Ok(())) if buf.filled().len() > before => me.check(buf, before),
                Poll::Ready(ended) => return Poll::Ready(ended),
                Poll::Pending => {
                    ready!(me.poll_head_timeout(cx));
                    // A client that sent no byte gets no response.
                    if me.held.is_empty() {
                        return Poll::Ready(Ok(()));
                    }
                    me.reject(FramingError::Slow);
                }
            }
            if buf.filled().len() > before {
                return Poll::Ready(Ok(()));
            }
        }
    }
}

impl AsyncWrite for StrictIo {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let me = self.get_mut();
        let written = Pin::new(&mut me.connection).poll_write(cx, buf);
        me.count_written(&written);
        me.with_write_timeout(cx, written)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let me = self.get_mut();
        let written = Pin::new(&mut me.connection).poll_write_vectored(cx, bufs);
        me.count_written(&written);
        me.with_write_timeout(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let me = self.get_mut();
        // Hyper flushes whenever it has anything to do.
        if me.poll_closed(cx).is_ready() {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        let written = Pin::new(&mut me.connection).poll_flush(cx);
        me.with_write_timeout(cx, written)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let me = self.get_mut();
        if !matches!(me.phase, IoPhase::Lingering(_)) {
            ready!(Pin::new(&mut me.connection).poll_shutdown(cx))?;
            if matches!(me.phase, IoPhase::Open) && me.framing.is_in_head() {
                return Poll::Ready(Ok(()));
            }
            me.phase = IoPhase::Lingering(Box::pin(tokio::time::sleep(LINGER)));
        }
        if me.poll_drained(cx).is_ready() {
            return Poll::Ready(Ok(()));
        }
        match &mut me.phase {
            IoPhase::Lingering(until) => until.as_mut().poll(cx).map(Ok),
            _ => Poll::Ready(Ok(())),
        }
    }
}

/// Synthetic request in place of an invalid head; the name of the error follows.
const REJECTED_REQUEST: &[u8] = b"GET / HTTP/1.1\r\nhost: outflow\r\nconnection: close\r\noutflow-refused: ";

/// Often enough for a call to leave its wait queue, and a small cost for each waiting body.
const CLOSE_POLL: Duration = Duration::from_millis(250);

/// Long enough for a response to reach a client that still sends, too short to be of use to an attacker.
const LINGER: Duration = Duration::from_secs(1);
