//! Life of one connection, from its first byte to its close.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use crate::config::ServerConfig;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use outflow::CancelToken;
use outflow_listener::{IdleTracker, InboundConnection};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use crate::h1::framing::HeadLimits;
use crate::h1::strict_io::{IoTimeouts, StrictIo};
use crate::memory_cost::{ConnectionMemory, HeldMemory};
use crate::proxy::ProxyHandler;
use crate::proxy::problem;
use crate::proxy::stalled_readers::StalledReaders;

/// Serves a connection until the client closes it, it is idle for too long, another one needs its place, or the
/// program stops.
pub(crate) async fn serve(
    connection: InboundConnection,
    proxy: Arc<ProxyHandler>,
    config: &ServerConfig,
    tracker: &IdleTracker,
    stop: CancelToken,
) {
    // A silent client costs no buffers: they are created for the first byte.
    tokio::select! {
        () = connection.wait_readable() => {}
        () = tokio::time::sleep(config.header_timeout) => return,
        () = tracker.evicted() => return,
    }
    let budget = proxy.budget(tracker);
    let Some(memory) = ConnectionMemory::reserve(budget.clone()) else {
        // On the heap: no other connection needs its buffer.
        return Box::pin(reject(connection, problem::no_memory_for_connection())).await;
    };
    let timeouts = IoTimeouts {
        head: config.header_timeout,
        write: config.body_timeout,
    };
    let held = HeldMemory::new(budget);
    let io = StrictIo::new(connection, head_limits(config), timeouts, held);
    let readers = StalledReaders::default();
    let (requests, watched) = (tracker.clone(), readers.clone());
    let memory = Arc::new(memory);
    let service = service_fn(move |request| {
        let (proxy, active) = (Arc::clone(&proxy), requests.begin());
        let (readers, memory) = (watched.clone(), Arc::clone(&memory));
        async move { Ok::<_, Infallible>(proxy.respond(request, active, &readers, &memory).await) }
    });
    let builder = builder(config);
    let mut served = pin!(builder.serve_connection(TokioIo::new(io), service));
    tokio::select! {
        // The caller causes an error here and sees it itself.
        _ended = &mut served => return,
        () = tracker.wait_idle(config.idle_timeout) => {
            served.as_mut().graceful_shutdown();
            // An idle connection has no request to finish.
            let _ended = timeout(CLOSE_TIMEOUT, served).await;
            return;
        }
        () = tracker.evicted() => {
            served.as_mut().graceful_shutdown();
            if tracker.is_idle() {
                // One step, in which an idle connection says that it closes.
                let _ended = timeout(Duration::ZERO, served).await;
                return;
            }
        }
        never = readers.watch_all(config.body_timeout) => match never {},
        () = stop.cancelled() => served.as_mut().graceful_shutdown(),
    }
    let _ended = served.await;
}

/// Writes a rejection and waits briefly for the client to read it.
pub(crate) async fn reject(mut connection: InboundConnection, text: String) {
    let written = async {
        connection.write_all(text.as_bytes()).await?;
        connection.shutdown().await?;
        let mut ignored = [0; 1_024];
        while connection.read(&mut ignored).await? > 0 {}
        Ok::<_, std::io::Error>(())
    };
    // A client that does not read gets no rejection.
    let _written = timeout(CLOSE_TIMEOUT, written).await;
}

fn head_limits(config: &ServerConfig) -> HeadLimits {
    HeadLimits {
        headers: usize::from(config.max_headers),
        bytes: usize::try_from(config.max_header_size).unwrap_or(usize::MAX),
    }
}

pub(crate) fn builder(config: &ServerConfig) -> Builder<TokioExecutor> {
    let limits = head_limits(config);
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        // `StrictIo` has its own timer for heads, which does not run while a connection is idle.
        .header_read_timeout(None)
        .max_buf_size(limits.bytes.max(MIN_BUFFER));
    if limits.headers > INLINE_HEADERS {
        builder.http1().max_headers(limits.headers);
    }
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(MAX_STREAMS)
        .max_header_list_size(u32::try_from(limits.bytes).unwrap_or(u32::MAX))
        .max_pending_accept_reset_streams(MAX_RESETS)
        .max_local_error_reset_streams(MAX_RESETS)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .keep_alive_interval(config.idle_timeout)
        .keep_alive_timeout(config.header_timeout);
    builder
}

/// Timeout for closing a connection: enough for the last bytes to a client that reads.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// Minimum that hyper accepts for its buffers.
const MIN_BUFFER: usize = 8 * 1024;

/// Number of headers that hyper parses without an allocation.
const INLINE_HEADERS: usize = 100;

/// Streams of one connection. Each may wait for a permit, so callers need few connections.
const MAX_STREAMS: u32 = 100;

/// Streams that a client may open and reset at once; browsers need hardly one.
const MAX_RESETS: usize = 20;

/// Bytes that a stream and a connection may send unread: the second is in the cost of a connection.
const STREAM_WINDOW: u32 = 64 * 1024;
const CONNECTION_WINDOW: u32 = 256 * 1024;
