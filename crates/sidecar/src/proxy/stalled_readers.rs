//! Detection of stalled readers over HTTP/2.
//!
//! Over HTTP/1.1 a client that does not read blocks the connection, and `StrictIo` detects it. Over HTTP/2 the
//! client grants a window for each stream. Without a window the connection goes on, but the stream stalls and
//! occupies a connection to the API that others need. So the responses of a connection are polled at
//! intervals, and a response whose reader took no frame meanwhile is aborted. A timer that each frame resets
//! would cost time per frame.
//!
//! A silent API is not detected here: the client has its own timeout for it.

use std::convert::Infallible;
use std::error::Error;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use outflow_listener::ActiveRequest;
use outflow_sync::Mutex;
use tokio::sync::Notify;

use super::response_body::BodySource;

/// Watched responses of one connection.
#[derive(Clone, Default)]
pub(crate) struct StalledReaders {
    shared: Arc<ReaderTable>,
}

#[derive(Default)]
struct ReaderTable {
    responses: Mutex<Vec<Weak<Mutex<StreamedResponse>>>>,
    added: Notify,
}

/// Body of a response that is aborted if its reader stalls.
pub(crate) struct WatchedBody(Arc<Mutex<StreamedResponse>>);

struct StreamedResponse {
    /// Source and its request; `None` once the response was aborted.
    source: Option<(BodySource, ActiveRequest)>,
    /// Polls since the reader last took a frame; `None` while the API has the next frame to send.
    stalled_polls: Option<u32>,
}

/// Failure of a response body: the API broke off, or the reader stalled.
pub(crate) type StreamError = Box<dyn Error + Send + Sync>;

impl StalledReaders {
    /// Watches the reader of a response.
    pub(crate) fn watch(&self, source: BodySource, active: ActiveRequest) -> WatchedBody {
        let response = Arc::new(Mutex::new(StreamedResponse {
            source: Some((source, active)),
            stalled_polls: Some(0),
        }));
        let mut responses = self.shared.responses.lock();
        if responses.len() >= CLEANUP_LEN {
            responses.retain(|response| response.strong_count() > 0);
        }
        responses.push(Arc::downgrade(&response));
        self.shared.added.notify_one();
        WatchedBody(response)
    }

    /// Aborts responses whose readers stall for this time, or up to a quarter longer. Never returns.
    pub(crate) async fn watch_all(&self, timeout: Duration) -> Infallible {
        loop {
            if self.shared.responses.lock().is_empty() {
                self.shared.added.notified().await;
            }
            tokio::time::sleep(timeout / POLLS).await;
            self.abort_stalled();
        }
    }

    fn abort_stalled(&self) {
        let mut aborted = Vec::new();
        self.shared.responses.lock().retain(|response| {
            let Some(response) = response.upgrade() else {
                return false;
            };
            let mut response = response.lock();
            if let Some(polls) = &mut response.stalled_polls {
                *polls += 1;
                if *polls > POLLS {
                    aborted.extend(response.source.take());
                }
            }
            response.source.is_some()
        });
        // Dropping a source may wake waiters, so it happens without a lock.
        drop(aborted);
    }
}

impl WatchedBody {
    /// Polls the next frame; returns an error once the response was aborted.
    pub(crate) fn poll_frame(&self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, StreamError>>> {
        let mut response = self.0.lock();
        let Some((source, _)) = &mut response.source else {
            return Poll::Ready(Some(Err("the client did not read the response".into())));
        };
        let polled = Pin::new(source).poll_frame(cx);
        response.stalled_polls = polled.is_ready().then_some(0);
        polled
    }

    pub(crate) fn is_end_stream(&self) -> bool {
        let response = self.0.lock();
        let source = response.source.as_ref();
        source.is_some_and(|(source, _)| source.is_end_stream())
    }

    pub(crate) fn size_hint(&self) -> SizeHint {
        let response = self.0.lock();
        let source = response.source.as_ref();
        source.map_or_else(SizeHint::default, |(source, _)| source.size_hint())
    }
}

/// Polls of a stalled response before it is aborted.
const POLLS: u32 = 4;

/// Twice the streams of a connection: at this length at least half of the entries are over.
const CLEANUP_LEN: usize = 200;
