//! Readers over HTTP/2, and what becomes of an answer that its reader does not take.
//!
//! Over HTTP/1.1 whoever does not read blocks the connection, and that is seen there. Over HTTP/2 a reader
//! gives leave for each piece: without it the connection goes on, nothing is stuck, and the answer is simply
//! not asked for more, while it holds a place at the API that others wait for. So the answers of a
//! connection are looked at now and then, and one whose reader has asked for nothing all the while is given up.
//! Looking costs nothing while pieces are taken; a timer that each of them resets would.
//!
//! An API that is silent is no concern of this: it is asked already, and has its own time.

use std::convert::Infallible;
use std::error::Error;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::sync::Notify;

use super::response_body::DownloadSource;
use crate::accept::idle_tracker::ActiveRequest;

/// The answers of one connection.
#[derive(Clone, Default)]
pub(crate) struct StalledReaders {
    shared: Arc<ReaderTable>,
}

#[derive(Default)]
struct ReaderTable {
    answers: Mutex<Vec<Weak<Mutex<StreamedResponse>>>>,
    first: Notify,
}

/// An answer that is given up if nobody takes it.
pub(crate) struct WatchedBody(Arc<Mutex<StreamedResponse>>);

struct StreamedResponse {
    /// Nothing once it was given up. The request is under way for as long.
    kept: Option<(DownloadSource, ActiveRequest)>,
    /// How often it was seen since its reader last asked for more; nothing while the API is asked.
    seen: Option<u32>,
}

/// Why an answer does not come whole: the API broke off, or its reader did.
pub(crate) type Lost = Box<dyn Error + Send + Sync>;

impl StalledReaders {
    /// Watches over the reader of an answer.
    pub(crate) fn watch(&self, body: DownloadSource, beat: ActiveRequest) -> WatchedBody {
        let answer = Arc::new(Mutex::new(StreamedResponse {
            kept: Some((body, beat)),
            seen: Some(0),
        }));
        let mut answers = lock(&self.shared.answers);
        if answers.len() >= MANY {
            answers.retain(|answer| answer.strong_count() > 0);
        }
        answers.push(Arc::downgrade(&answer));
        self.shared.first.notify_one();
        WatchedBody(answer)
    }

    /// Gives up what has not been taken for so long, or up to a quarter of it longer. Without end.
    pub(crate) async fn watched(&self, patience: Duration) -> Infallible {
        loop {
            if lock(&self.shared.answers).is_empty() {
                self.shared.first.notified().await;
            }
            tokio::time::sleep(patience / LOOKS).await;
            self.check();
        }
    }

    fn check(&self) {
        let mut given_up = Vec::new();
        lock(&self.shared.answers).retain(|answer| {
            let Some(answer) = answer.upgrade() else {
                return false;
            };
            let mut answer = lock(&answer);
            if let Some(seen) = &mut answer.seen {
                *seen += 1;
                if *seen > LOOKS {
                    given_up.extend(answer.kept.take());
                }
            }
            answer.kept.is_some()
        });
        // Giving a place back may wake others: nothing is locked any more.
        drop(given_up);
    }
}

impl WatchedBody {
    /// The next piece; an error once it was given up.
    pub(crate) fn poll_frame(
        &self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Lost>>> {
        let mut answer = lock(&self.0);
        let Some((body, _)) = &mut answer.kept else {
            return Poll::Ready(Some(Err("nobody took the answer in time".into())));
        };
        let polled = Pin::new(body).poll_frame(cx);
        answer.seen = polled.is_ready().then_some(0);
        polled
    }

    pub(crate) fn is_end_stream(&self) -> bool {
        let answer = lock(&self.0);
        let kept = answer.kept.as_ref();
        kept.is_some_and(|(body, _)| body.is_end_stream())
    }

    pub(crate) fn size_hint(&self) -> SizeHint {
        let answer = lock(&self.0);
        let kept = answer.kept.as_ref();
        kept.map_or_else(SizeHint::default, |(body, _)| body.size_hint())
    }
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How often an answer is seen untaken before it is given up.
const LOOKS: u32 = 4;

/// Twice as many as can be under way on a connection: then half of them at least are over.
const MANY: usize = 200;
