//! One API's numbers as plain values, for whoever writes them in another form.

use smol_str::SmolStr;

use super::counters::ApiCounters;
use super::gauges::GaugeSnapshot;
use super::histogram::{HistogramSnapshot, HistogramUnit};

/// What is known of one API.
pub(crate) struct ApiSummary {
    pub(crate) api: SmolStr,
    pub(crate) codes: Vec<(SmolStr, u64)>,
    pub(crate) cache_hits: u64,
    pub(crate) cache_misses: u64,
    pub(crate) latency: HistogramSnapshot,
    pub(crate) sleep: HistogramSnapshot,
    /// How it stands, if a source knows.
    pub(crate) reading: Option<GaugeSnapshot>,
}

impl ApiSummary {
    pub(super) fn new(api: &ApiCounters, reading: Option<GaugeSnapshot>) -> Self {
        Self {
            api: api.name.clone(),
            codes: api.whole.codes.seen().collect(),
            cache_hits: api.whole.cache_hits(),
            cache_misses: api.whole.cache_misses(),
            latency: api.whole.latency.read(HistogramUnit::Millis),
            sleep: api.whole.sleep.read(HistogramUnit::Millis),
            reading,
        }
    }
}
