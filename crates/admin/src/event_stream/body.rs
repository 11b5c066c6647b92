//! Event stream as the body of a response.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame};

use super::StreamReader;

/// Endless body of a stream of events.
pub(crate) struct EventBody {
    /// Future of the next line; `None` after the end.
    next: Option<Pin<Box<dyn Future<Output = ReadLine> + Send>>>,
}

type ReadLine = (Option<Bytes>, StreamReader);

impl EventBody {
    /// Creates the body of this reader.
    pub(crate) fn new(reader: StreamReader) -> Self {
        Self {
            next: Some(Box::pin(read_line(reader))),
        }
    }
}

async fn read_line(mut reader: StreamReader) -> ReadLine {
    (reader.next().await, reader)
}

impl Body for EventBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let Some(next) = &mut self.next else {
            return Poll::Ready(None);
        };
        let (line, reader) = ready!(next.as_mut().poll(context));
        self.next = match line {
            Some(_) => Some(Box::pin(read_line(reader))),
            None => None,
        };
        Poll::Ready(line.map(|bytes| Ok(Frame::data(bytes))))
    }
}
