//! One connection from its first byte to its last.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use crate::config::ServerConfig;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use outflow::CancelToken;
use outflow_listener::InboundConnection;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use super::idle_tracker::IdleTracker;
use crate::h1::framing::HeadLimits;
use crate::h1::strict_io::{ReadTimeouts, StrictIo};
use crate::proxy::ProxyHandler;
use crate::proxy::problem;
use crate::proxy::stalled_readers::StalledReaders;

/// Serves it until its end, until it is idle for too long, or until the program stops.
pub(crate) async fn serve(
    connection: InboundConnection,
    proxy: Arc<ProxyHandler>,
    settings: &ServerConfig,
    stop: CancelToken,
) {
    // Whoever says nothing costs nothing: buffers are made for the first byte.
    if timeout(settings.header_timeout, connection.has_come())
        .await
        .is_err()
    {
        return;
    }
    let wire = StrictIo::new(connection, bounds(settings), patience(settings));
    let pulse = IdleTracker::default();
    let readers = StalledReaders::default();
    let (beats, watched) = (pulse.clone(), readers.clone());
    let service = service_fn(move |request| {
        let (proxy, beat) = (Arc::clone(&proxy), beats.begin());
        let readers = watched.clone();
        async move { Ok::<_, Infallible>(proxy.answer(request, beat, &readers).await) }
    });
    let builder = builder(settings);
    let mut served = pin!(builder.serve_connection(TokioIo::new(wire), service));
    tokio::select! {
        // What a caller's connection ends with is the caller's business.
        _ended = &mut served => return,
        () = pulse.stopped(settings.idle_timeout) => {
            served.as_mut().graceful_shutdown();
            // Whoever has nothing under way has nothing to finish.
            let _ended = timeout(PARTING, served).await;
            return;
        }
        never = readers.watched(settings.body_timeout) => match never {},
        () = stop.cancelled() => served.as_mut().graceful_shutdown(),
    }
    let _ended = served.await;
}

/// Tells who came that there is no place, and waits a moment for that to be read.
pub(crate) async fn reject(mut connection: InboundConnection, words: &'static str) {
    let said = async {
        let text = problem::no_place(words);
        connection.write_all(text.as_bytes()).await?;
        connection.shutdown().await?;
        let mut ignored = [0; 1_024];
        while connection.read(&mut ignored).await? > 0 {}
        Ok::<_, std::io::Error>(())
    };
    // Whoever does not listen need not be told.
    let _told = timeout(PARTING, said).await;
}

fn bounds(settings: &ServerConfig) -> HeadLimits {
    HeadLimits {
        headers: usize::from(settings.max_headers),
        bytes: usize::try_from(settings.max_header_size).unwrap_or(usize::MAX),
    }
}

const fn patience(settings: &ServerConfig) -> ReadTimeouts {
    ReadTimeouts {
        head: settings.header_timeout,
        write: settings.body_timeout,
    }
}

pub(crate) fn builder(settings: &ServerConfig) -> Builder<TokioExecutor> {
    let bounds = bounds(settings);
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        // The wire has its own clock for heads, which does not run while a connection is idle.
        .header_read_timeout(None)
        .max_buf_size(bounds.bytes.max(SMALLEST_BUFFER));
    if bounds.headers > PARSERS_USUAL {
        builder.http1().max_headers(bounds.headers);
    }
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS)
        .max_header_list_size(u32::try_from(bounds.bytes).unwrap_or(u32::MAX))
        .max_pending_accept_reset_streams(RESETS)
        .max_local_error_reset_streams(RESETS)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .keep_alive_interval(settings.idle_timeout)
        .keep_alive_timeout(settings.header_timeout);
    builder
}

/// How long a connection that is over may take to end.
const PARTING: Duration = Duration::from_secs(1);

/// The parser makes its own buffers no smaller.
const SMALLEST_BUFFER: usize = 8 * 1024;

/// So many headers the parser holds without asking for memory.
const PARSERS_USUAL: usize = 100;

/// Each stream may wait for a permit: far fewer connections than callers are needed.
const STREAMS: u32 = 100;

/// Streams that are opened and given up at once; browsers need hardly one.
const RESETS: usize = 20;

/// What a stream and a connection may send unread: together no more than an ordinary connection's.
const STREAM_WINDOW: u32 = 64 * 1024;
const CONNECTION_WINDOW: u32 = 1024 * 1024;
