//! A connection whose requests are checked before anybody parses them.
//!
//! Bytes that are in order go straight into the parser's buffer; only a head that came in pieces is
//! held back until it is whole. A head that is not in order never arrives: in its place comes a request
//! of ours that says why, so that the refusal is written by the same hands and in the same order as
//! every other answer, behind those to the requests before it. A client that sends such a request
//! itself is refused too, which is all that it says.
//!
//! After a refusal nothing more is read as a request, and whatever still comes is thrown away for a
//! moment before the connection closes: closing on unread bytes would reset it, and the refusal would
//! be lost.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use outflow_listener::InboundConnection;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

use super::framing::{Framing, FramingError, HeadLimits, HeldBytes, ScanResult};

/// A connection with a check before it.
pub(crate) struct StrictIo {
    connection: InboundConnection,
    framing: Framing,
    /// The beginning of a head.
    held: BytesMut,
    /// What was found in order and is still to be read.
    ready: Bytes,
    /// The clock runs while a head is held.
    patience: ReadTimeouts,
    alarm: Option<Pin<Box<Sleep>>>,
    /// Runs while the other side takes nothing of what is written.
    stuck: Option<Pin<Box<Sleep>>>,
    phase: IoPhase,
}

/// How long the other side may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadTimeouts {
    /// For a head, from its first byte on.
    pub(crate) head: Duration,
    /// For taking anything of what is written to it.
    pub(crate) write: Duration,
}

enum IoPhase {
    Open,
    /// A body broke the rules: its reader is told next.
    Broken(FramingError),
    /// A request of ours says why; nothing comes behind it.
    Refused,
    /// Everything is said: what still comes is thrown away until then.
    Lingering(Pin<Box<Sleep>>),
}

impl StrictIo {
    pub(crate) fn new(
        connection: InboundConnection,
        bounds: HeadLimits,
        patience: ReadTimeouts,
    ) -> Self {
        Self {
            connection,
            framing: Framing::new(bounds),
            held: BytesMut::new(),
            ready: Bytes::new(),
            patience,
            alarm: None,
            stuck: None,
            phase: IoPhase::Open,
        }
    }

    /// Hands out what is ready, if anything is.
    fn give(&mut self, buf: &mut ReadBuf<'_>) -> bool {
        let count = self.ready.len().min(buf.remaining());
        buf.put_slice(&self.ready.split_to(count));
        count > 0
    }

    /// Judges what came into the buffer behind `before`, and takes back what may not be read yet.
    fn judge(&mut self, buf: &mut ReadBuf<'_>, before: usize) {
        let came = buf.filled().get(before..).unwrap_or_default();
        let scanned = if self.held.is_empty() {
            let scanned = self.framing.scan(came);
            if scanned.rest == HeldBytes::Unfinished {
                let rest = came.get(scanned.passed..).unwrap_or_default();
                self.held.extend_from_slice(rest);
            }
            buf.set_filled(before + scanned.passed);
            scanned
        } else {
            self.held.extend_from_slice(came);
            buf.set_filled(before);
            let scanned = self.framing.scan(&self.held);
            self.ready = self.held.split_to(scanned.passed).freeze();
            scanned
        };
        self.follow(scanned);
    }

    fn follow(&mut self, scanned: ScanResult) {
        match scanned.rest {
            HeldBytes::Nothing => {
                self.alarm = None;
                self.held = BytesMut::new();
            }
            // A head that begins behind another has its own time.
            HeldBytes::Unfinished if scanned.passed > 0 => self.alarm = None,
            HeldBytes::Unfinished => {}
            HeldBytes::Faulty(fault) => self.refuse(fault),
        }
    }

    fn refuse(&mut self, fault: FramingError) {
        self.alarm = None;
        self.held = BytesMut::new();
        if !self.framing.is_between_bodies() {
            self.phase = IoPhase::Broken(fault);
            return;
        }
        self.phase = IoPhase::Refused;
        let mut last = BytesMut::from(&*self.ready);
        last.extend_from_slice(BEFORE_REASON);
        last.extend_from_slice(fault.name().as_bytes());
        last.extend_from_slice(b"\r\n\r\n");
        self.ready = last.freeze();
    }

    /// Whether a head has taken too long. Between requests there is none: then the connection is idle.
    fn poll_alarm(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.held.is_empty() && !self.framing.is_untouched() {
            return Poll::Pending;
        }
        let patience = self.patience.head;
        let alarm = self
            .alarm
            .get_or_insert_with(|| Box::pin(tokio::time::sleep(patience)));
        alarm.as_mut().poll(cx)
    }

    /// Passes on what writing came to, but not for ever that nothing is taken: whoever does not read
    /// holds a place at the API that others wait for.
    fn bounded<T>(
        &mut self,
        cx: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.stuck = None;
            return written;
        }
        let patience = self.patience.write;
        let stuck = self
            .stuck
            .get_or_insert_with(|| Box::pin(tokio::time::sleep(patience)));
        ready!(stuck.as_mut().poll(cx));
        self.connection.reset_when_closed();
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }

    /// Throws away what comes, until the other side has closed.
    fn poll_drained(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut room = [0; 4_096];
        loop {
            let mut buf = ReadBuf::new(&mut room);
            ready!(Pin::new(&mut self.connection).poll_read(cx, &mut buf))?;
            if buf.filled().is_empty() {
                return Poll::Ready(Ok(()));
            }
        }
    }
}

impl AsyncRead for StrictIo {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let me = self.get_mut();
        loop {
            if me.give(buf) {
                return Poll::Ready(Ok(()));
            }
            match &me.phase {
                IoPhase::Open => {}
                IoPhase::Broken(fault) => {
                    let why = io::Error::new(io::ErrorKind::InvalidData, fault.advice());
                    return Poll::Ready(Err(why));
                }
                IoPhase::Refused | IoPhase::Lingering(_) => {
                    // An end now would be taken for a client who does not want its answer.
                    let _gone = me.poll_drained(cx);
                    return Poll::Pending;
                }
            }
            let before = buf.filled().len();
            match Pin::new(&mut me.connection).poll_read(cx, buf) {
                Poll::Ready(Ok(())) if buf.filled().len() > before => me.judge(buf, before),
                Poll::Ready(ended) => return Poll::Ready(ended),
                Poll::Pending => {
                    ready!(me.poll_alarm(cx));
                    // Who has said nothing is told nothing.
                    if me.held.is_empty() {
                        return Poll::Ready(Ok(()));
                    }
                    me.refuse(FramingError::Slow);
                }
            }
            if buf.filled().len() > before {
                return Poll::Ready(Ok(()));
            }
        }
    }
}

impl AsyncWrite for StrictIo {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let me = self.get_mut();
        let written = Pin::new(&mut me.connection).poll_write(cx, buf);
        me.bounded(cx, written)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let me = self.get_mut();
        let written = Pin::new(&mut me.connection).poll_write_vectored(cx, bufs);
        me.bounded(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let me = self.get_mut();
        let written = Pin::new(&mut me.connection).poll_flush(cx);
        me.bounded(cx, written)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let me = self.get_mut();
        if !matches!(me.phase, IoPhase::Lingering(_)) {
            ready!(Pin::new(&mut me.connection).poll_shutdown(cx))?;
            if matches!(me.phase, IoPhase::Open) && me.framing.is_between_bodies() {
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

/// What comes in the place of a head that is not in order.
const BEFORE_REASON: &[u8] =
    b"GET / HTTP/1.1\r\nhost: outflow\r\nconnection: close\r\noutflow-refused: ";

/// Long enough for an answer to reach whoever is still sending, short enough that nobody can live on it.
const LINGER: Duration = Duration::from_secs(1);
