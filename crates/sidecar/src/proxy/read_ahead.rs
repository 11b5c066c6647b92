//! Body that is read ahead while its call waits for a permit.
//!
//! A client that closes sends its end after its last byte. While bytes are unread, the systems of both sides keep
//! them, and the end stays behind them. So a body that is too large to be collected is read ahead, as far as the
//! memory budget allows. A client that gave up is noticed then, and its call leaves the wait queue without a permit.
//! Over HTTP/2 the library closes a connection with many small pieces unread; here they become one buffer.
//!
//! Reading stops with the first piece that the call sends. From then on the call itself notices the end.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use http_body::{Body, Frame, SizeHint};
use outflow::{MemoryBudget, MemoryShare};
use outflow_sync::Mutex;

use super::request_body::{BodyError, RequestBody};

/// Reader of a body whose call has not begun to send it.
pub(crate) struct ReadAhead(Arc<Mutex<AheadState>>);

/// Body of the call: first the bytes that were read ahead, then the others.
pub(crate) struct AheadBody(Arc<Mutex<AheadState>>);

struct AheadState {
    body: RequestBody,
    buffer: BytesMut,
    share: MemoryShare,
    /// Trailers that were read ahead.
    trailers: Option<Frame<Bytes>>,
    /// The call sends the body, or no more of it may be read ahead.
    is_over: bool,
}

impl ReadAhead {
    pub(crate) fn new(body: RequestBody, memory: &MemoryBudget) -> (Self, AheadBody) {
        let state = Arc::new(Mutex::new(AheadState {
            body,
            buffer: BytesMut::new(),
            share: memory.empty_share(),
            trailers: None,
            is_over: false,
        }));
        (Self(Arc::clone(&state)), AheadBody(state))
    }

    /// Reads ahead. Returns only if the body fails before the call sends any of it.
    pub(crate) async fn failed(&self) -> BodyError {
        poll_fn(|cx| self.0.lock().poll_failed(cx)).await
    }
}

impl AheadState {
    fn poll_failed(&mut self, cx: &mut Context<'_>) -> Poll<BodyError> {
        while !self.is_over && self.trailers.is_none() && !self.body.is_end_stream() && self.has_room() {
            match Pin::new(&mut self.body).poll_frame(cx) {
                Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                    Ok(data) => self.buffer.extend_from_slice(&data),
                    Err(trailers) => self.trailers = Some(trailers),
                },
                Poll::Ready(Some(Err(error))) => return Poll::Ready(error),
                Poll::Ready(None) | Poll::Pending => break,
            }
        }
        Poll::Pending
    }

    /// Makes room for one more piece, if the memory budget allows it.
    fn has_room(&mut self) -> bool {
        let needed = self.buffer.len() + MAX_PIECE;
        if needed <= self.buffer.capacity() {
            return true;
        }
        let capacity = needed.max(2 * self.buffer.capacity());
        let is_granted = capacity <= MAX_AHEAD && self.share.grow_buffer(u64::try_from(capacity).unwrap_or(u64::MAX));
        if is_granted {
            let mut grown = BytesMut::with_capacity(capacity);
            grown.extend_from_slice(&self.buffer);
            self.buffer = grown;
        }
        self.is_over = !is_granted;
        is_granted
    }
}

impl Body for AheadBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let mut state = self.0.lock();
        state.is_over = true;
        if !state.buffer.is_empty() {
            let bytes = std::mem::take(&mut state.buffer).freeze();
            return Poll::Ready(Some(Ok(Frame::data(bytes))));
        }
        state.share.shrink(0);
        if let Some(trailers) = state.trailers.take() {
            return Poll::Ready(Some(Ok(trailers)));
        }
        Pin::new(&mut state.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        let state = self.0.lock();
        state.buffer.is_empty() && state.trailers.is_none() && state.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let state = self.0.lock();
        let ahead = u64::try_from(state.buffer.len()).unwrap_or(u64::MAX);
        let rest = state.body.size_hint();
        let mut hint = SizeHint::new();
        hint.set_lower(rest.lower().saturating_add(ahead));
        if let Some(upper) = rest.upper() {
            hint.set_upper(upper.saturating_add(ahead));
        }
        hint
    }
}

/// More than the buffer through which a connection reads by default; a larger piece only grows the buffer.
const MAX_PIECE: usize = 32 * 1024;

/// Memory of one body. A few hundred waiting uploads use all memory for buffers; later ones wait unread.
const MAX_AHEAD: usize = 512 * 1024;
