//! Memory that connections and requests take from the budget, and its metrics.
//!
//! A body states its own size. A connection and a request do not: their buffers belong to the HTTP library. The
//! constants here are measured: 10,000 waiting calls on as many connections take 25 KiB each.

use std::sync::OnceLock;

use http::{Request, Version};
use outflow::metrics::{FamilySource, MetricFamily, SampleValue, sidecar};
use outflow::{MemoryBudget, MemoryShare};

/// Returns the memory of a request without its body.
fn request_cost<B>(request: &Request<B>) -> u64 {
    let fields = request.headers().iter();
    let head: usize = fields.map(|(name, value)| name.as_str().len() + value.len()).sum();
    u64::try_from(head).unwrap_or(u64::MAX).saturating_add(REQUEST)
}

/// Returns the number of callers, each with a connection and a request, that the free memory is enough for.
pub(crate) fn free_places(budget: &MemoryBudget) -> u32 {
    let free = budget.limit().saturating_sub(budget.used());
    u32::try_from(free / (CONNECTION + REQUEST)).unwrap_or(u32::MAX)
}

/// Memory of one connection.
pub(crate) struct ConnectionMemory {
    #[expect(dead_code, reason = "held until it is dropped")]
    buffers: MemoryShare,
    /// Set with the first request over HTTP/2.
    http2: OnceLock<MemoryShare>,
}

impl ConnectionMemory {
    pub(crate) const fn new(buffers: MemoryShare) -> Self {
        let http2 = OnceLock::new();
        Self { buffers, http2 }
    }

    /// Takes the memory of a request, and before the first one over HTTP/2 that of its connection.
    pub(crate) fn reserve<B>(&self, budget: &MemoryBudget, request: &Request<B>) -> Option<MemoryShare> {
        if request.version() == Version::HTTP_2 && self.http2.get().is_none() {
            // A concurrent request may set it first; the second share is returned.
            let _known = self.http2.set(budget.reserve(HTTP2_CONNECTION)?);
        }
        budget.reserve(request_cost(request))
    }
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

/// Buffers of a connection, from its first byte to its end.
pub(crate) const CONNECTION: u64 = 16 * 1024;

/// Bytes that an HTTP/2 connection may send unread, beyond its buffers.
const HTTP2_CONNECTION: u64 = 256 * 1024;

/// State of a call, and a piece of its response.
const REQUEST: u64 = 12 * 1024;
