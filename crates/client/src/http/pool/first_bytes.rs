//! Stream that notes a server which speaks first.
//!
//! A server of HTTP/1 answers requests. Bytes before the first request are a greeting of another protocol.
//! Hyper refuses them, but its error depends on the moment: the connection may just look closed. A closed
//! connection is worth a retry and another protocol is not, so the stream itself notes the difference.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use hyper::rt::{Read, ReadBuf, ReadBufCursor, Write};

use super::marks::ConnectionMarks;

/// Stream of an HTTP/1 connection.
pub(super) struct FirstBytes<S> {
    stream: S,
    /// Set until the first byte of a request leaves.
    unspoken: Option<ConnectionMarks>,
}

impl<S> FirstBytes<S> {
    pub(super) const fn new(stream: S, marks: ConnectionMarks) -> Self {
        Self {
            stream,
            unspoken: Some(marks),
        }
    }
}

impl<S: Read + Unpin> Read for FirstBytes<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, mut buf: ReadBufCursor<'_>) -> Poll<io::Result<()>> {
        let Some(marks) = self.unspoken.clone() else {
            return Pin::new(&mut self.stream).poll_read(cx, buf);
        };
        // A cursor does not tell what was read into it. Hyper refuses these bytes, so few are enough.
        let mut bytes = [0; 16];
        let room = buf.remaining().min(bytes.len());
        let mut first = ReadBuf::new(bytes.get_mut(..room).unwrap_or_default());
        ready!(Pin::new(&mut self.stream).poll_read(cx, first.unfilled()))?;
        if !first.filled().is_empty() {
            marks.note_broken();
            buf.put_slice(first.filled());
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: Write + Unpin> Write for FirstBytes<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.unspoken = None;
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.unspoken = None;
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }
}
