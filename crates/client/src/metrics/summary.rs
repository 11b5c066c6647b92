//! Numbers of one API as plain values, for other formats.

use smol_str::SmolStr;

use super::counters::ApiCounters;
use super::gauges::GaugeSnapshot;
use super::histogram::{HistogramSnapshot, HistogramUnit};

/// Numbers of one API.
pub(crate) struct ApiSummary {
    pub(crate) api: SmolStr,
    pub(crate) codes: Vec<(SmolStr, u64)>,
    pub(crate) cache_hits: u64,
    pub(crate) cache_misses: u64,
    pub(crate) latency: HistogramSnapshot,
    pub(crate) sleep: HistogramSnapshot,
    /// Gauges, if a source knows them.
    pub(crate) gauges: Option<GaugeSnapshot>,
}

impl ApiSummary {
    pub(super) fn new(api: &ApiCounters, gauges: Option<GaugeSnapshot>) -> Self {
        Self {
            api: api.name.clone(),
            codes: api.api_wide.codes.nonzero().collect(),
            cache_hits: api.api_wide.cache_hits(),
            cache_misses: api.api_wide.cache_misses(),
            latency: api.api_wide.latency.read(HistogramUnit::Millis),
            sleep: api.api_wide.sleep.read(HistogramUnit::Millis),
            gauges,
        }
    }
}
