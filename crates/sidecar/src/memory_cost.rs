//! Memory that connections and requests take from the budget, and its metrics.
//!
//! A body states its own size. A connection and a request do not: their buffers belong to the HTTP library, and
//! those that have grown stay so until the connection ends. The constants here are measured: 10,000 idle
//! connections, 10,000 with an unfinished head of 29 kB and 10,000 waiting calls never take more than counted.
//!
//! Idle connections and unfinished heads may use three quarters of the budget. Beyond that each further one closes
//! an idle connection, so that clients without a request never keep out those with one.

use std::sync::{Arc, Weak};

use http::{HeaderMap, Request, Response, Version};
use http_body::Body;
use outflow::metrics::{FamilySource, MetricFamily, SampleValue, sidecar};
use outflow::{MemoryBudget, MemoryShare};
use outflow_listener::{ConnectionLimits, IdleTracker};
use outflow_sync::Mutex;

/// Returns the number of callers, each with a connection and a request, that the free memory is enough for.
pub(crate) fn free_places(memory: &MemoryBudget) -> u32 {
    let free = memory.limit().saturating_sub(memory.used());
    u32::try_from(free / (CONNECTION + REQUEST)).unwrap_or(u32::MAX)
}

/// Access of one connection to the memory. Before the memory is used up, it closes idle connections.
#[derive(Clone)]
pub(crate) struct ConnectionBudget {
    pub(crate) memory: MemoryBudget,
    pub(crate) connections: Arc<ConnectionLimits>,
    pub(crate) tracker: IdleTracker,
}

impl ConnectionBudget {
    /// Closes an idle connection if less than a quarter is free.
    fn make_room(&self) {
        let limit = self.memory.limit();
        if self.memory.used() > limit - limit / 4 {
            // Without an idle connection, all memory is that of requests.
            let _closed = self.connections.evict_idle(&self.tracker);
        }
    }
}

/// Memory of bytes that a connection holds back: an unfinished head, or the buffers of HTTP/2.
pub(crate) struct HeldMemory {
    budget: ConnectionBudget,
    share: MemoryShare,
    size: u64,
}

impl HeldMemory {
    pub(crate) fn new(budget: ConnectionBudget) -> Self {
        let share = budget.memory.empty_share();
        Self { budget, share, size: 0 }
    }

    /// Changes the memory to this size. Returns false if it does not fit.
    pub(crate) fn resize(&mut self, bytes: usize) -> bool {
        let size = u64::try_from(bytes).unwrap_or(u64::MAX);
        if size == self.size {
            return true;
        }
        let fits = if size > self.size {
            self.budget.make_room();
            self.share.grow(size)
        } else {
            self.share.shrink(size);
            true
        };
        if fits {
            self.size = size;
        }
        fits
    }
}

/// Memory of one connection.
pub(crate) struct ConnectionMemory {
    budget: ConnectionBudget,
    /// Buffers, as large as the largest request made them.
    buffers: Mutex<MemoryShare>,
    /// Bytes that the client may send unread over HTTP/2, while a request has a body.
    windows: Mutex<Weak<MemoryShare>>,
}

/// Memory of one request; dropping it returns the memory.
pub(crate) struct RequestMemory {
    share: MemoryShare,
    size: u64,
    #[expect(dead_code, reason = "held until it is dropped")]
    windows: Option<Arc<MemoryShare>>,
}

impl ConnectionMemory {
    /// Takes the memory of a new connection.
    pub(crate) fn reserve(budget: ConnectionBudget) -> Option<Self> {
        budget.make_room();
        let buffers = budget.memory.reserve(CONNECTION)?;
        Some(Self {
            budget,
            buffers: Mutex::new(buffers),
            windows: Mutex::default(),
        })
    }

    /// Takes the memory of a request, of the buffers that grow with it, and of its window.
    pub(crate) fn begin<B: Body>(&self, request: &Request<B>, read_buffer: u64) -> Option<RequestMemory> {
        self.budget.make_room();
        let head = head_size(request.headers());
        let windows = match request.version() {
            Version::HTTP_2 if request.body().is_end_stream() => None,
            Version::HTTP_2 => Some(self.reserve_windows()?),
            _ => {
                let body = request.body().size_hint().upper().unwrap_or(u64::MAX);
                let grown = head.max(body).min(read_buffer);
                let fits = grown <= FIRST_BUFFER || self.buffers.lock().grow(CONNECTION + grown);
                fits.then_some(())?;
                None
            }
        };
        let size = REQUEST + head;
        let share = self.budget.memory.reserve(size)?;
        Some(RequestMemory { share, size, windows })
    }

    fn reserve_windows(&self) -> Option<Arc<MemoryShare>> {
        let mut windows = self.windows.lock();
        if let Some(known) = windows.upgrade() {
            return Some(known);
        }
        let share = Arc::new(self.budget.memory.reserve(HTTP2_WINDOWS)?);
        *windows = Arc::downgrade(&share);
        Some(share)
    }
}

impl RequestMemory {
    /// Takes the memory of the response's head. Returns false if it does not fit.
    pub(crate) fn add_response<B>(&mut self, response: &Response<B>) -> bool {
        self.share.grow(self.size + head_size(response.headers()))
    }
}

/// Returns the memory of parsed headers.
fn head_size(headers: &HeaderMap) -> u64 {
    let field = |(name, value): (&http::HeaderName, &http::HeaderValue)| name.as_str().len() + value.len() + FIELD;
    u64::try_from(headers.iter().map(field).sum::<usize>()).unwrap_or(u64::MAX)
}

/// Metrics of the memory budget.
pub(crate) struct MemoryMetrics(pub(crate) MemoryBudget);

impl FamilySource for MemoryMetrics {
    fn families(&self) -> Vec<MetricFamily> {
        let level = |bytes: u64| SampleValue::Level(to_gauge(bytes));
        vec![
            MetricFamily::alone(sidecar::MEMORY_USED, level(self.0.used())),
            MetricFamily::alone(sidecar::MEMORY_LIMIT, level(self.0.limit())),
            MetricFamily::alone(sidecar::MEMORY_REFUSED, SampleValue::Count(self.0.refused())),
            MetricFamily::alone(sidecar::MEMORY_UNBUFFERED, SampleValue::Count(self.0.unbuffered())),
        ]
    }
}

#[expect(
    clippy::cast_precision_loss,
    clippy::as_conversions,
    reason = "a gauge of bytes is exact up to 8 PiB"
)]
const fn to_gauge(bytes: u64) -> f64 {
    bytes as f64
}

/// Buffers and state of a connection, from its first byte to its end.
pub(crate) const CONNECTION: u64 = 32 * 1024;

/// Read buffer of a new connection, which is in its cost.
const FIRST_BUFFER: u64 = 8 * 1024;

/// Buffers and state of an HTTP/2 connection, beyond those of any other.
pub(crate) const HTTP2_BUFFERS: usize = 16 * 1024;

/// Memory of each byte of an unfinished HTTP/2 head: the bytes, their decoded form, and room to grow.
pub(crate) const HELD_FRAMES: usize = 3;

/// Bytes that an HTTP/2 connection may send unread.
const HTTP2_WINDOWS: u64 = 256 * 1024;

/// State of a call, and a piece of its response.
const REQUEST: u64 = 12 * 1024;

/// Entry of a header in its table.
const FIELD: usize = 112;
