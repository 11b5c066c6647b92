//! One API's numbers as plain values, for whoever writes them in another form.

use smol_str::SmolStr;

use super::cells::ApiCells;
use super::histogram::{Filled, Unit};
use super::source::Reading;

/// What is known of one API.
pub(crate) struct Summary {
    pub(crate) api: SmolStr,
    pub(crate) codes: Vec<(SmolStr, u64)>,
    pub(crate) cache_hits: u64,
    pub(crate) cache_misses: u64,
    pub(crate) latency: Filled,
    pub(crate) sleep: Filled,
    /// How it stands, if a source knows.
    pub(crate) reading: Option<Reading>,
}

impl Summary {
    pub(super) fn of(api: &ApiCells, reading: Option<Reading>) -> Self {
        Self {
            api: api.name.clone(),
            codes: api.whole.codes.seen().collect(),
            cache_hits: api.whole.cache_hits(),
            cache_misses: api.whole.cache_misses(),
            latency: api.whole.latency.read(Unit::Millis),
            sleep: api.whole.sleep.read(Unit::Millis),
            reading,
        }
    }
}
