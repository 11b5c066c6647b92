//! Metrics as lines of JSON, without Prometheus.
//!
//! One object per interval with the names and numbers of the page: totals since the start, so that
//! a lost line loses nothing. To write them to a file, pass the lines to
//! [`LogSender`](crate::log::LogSender); the caller sets the interval.

use outflow_core::{Timestamp, WallTime};
use serde_json::{Map, Value, json};

use crate::metrics::{self, ApiSummary, GaugeSnapshot, HistogramSnapshot, Metrics, key};

/// Returns all current metrics as one line with its end.
///
/// ```
/// use outflow::core::WallTime;
/// use outflow::metrics::{ApiLabels, Metrics};
/// use outflow::ndjson;
///
/// let metrics = Metrics::new([ApiLabels::new("tmdb", [])]);
/// let line = ndjson::snapshot_line(&metrics, WallTime::from_unix_secs(1_700_000_000));
/// assert!(line.starts_with("{\"apis\":{\"other\":{"));
/// assert!(line.ends_with("\"ts\":\"2023-11-14T22:13:20.000Z\"}\n"));
/// ```
pub fn snapshot_line(metrics: &Metrics, now: WallTime) -> String {
    let apis: Map<_, _> = metrics
        .summaries()
        .iter()
        .map(|api| (api.api.to_string(), object(api)))
        .collect();
    let line = json!({ key::TS: Timestamp(now).to_string(), "apis": apis });
    format!("{line}\n")
}

fn object(api: &ApiSummary) -> Value {
    let codes: Map<_, _> = api
        .codes
        .iter()
        .map(|(code, count)| (code.to_string(), json!(count)))
        .collect();
    let mut object = json!({
        metrics::REQUESTS.name: codes,
        metrics::CACHE_HITS.name: api.cache_hits,
        metrics::CACHE_MISSES.name: api.cache_misses,
        metrics::LATENCY.name: histogram_object(&api.latency),
        metrics::SLEEP.name: histogram_object(&api.sleep),
    });
    if let (Some(object), Some(gauges)) = (object.as_object_mut(), &api.gauges) {
        object.extend(gauge_fields(gauges));
    }
    object
}

fn gauge_fields(gauges: &GaugeSnapshot) -> [(String, Value); 7] {
    let counts = &gauges.counts;
    let other = u64::from(counts.network) + u64::from(counts.other);
    let error_rate = f64::from(gauges.error_ppm) / 1_000_000.0;
    [
        (metrics::COUNT_2XX, json!(counts.success)),
        (metrics::COUNT_429, json!(counts.throttled)),
        (metrics::COUNT_5XX, json!(counts.server)),
        (metrics::COUNT_OTHER, json!(other)),
        (metrics::RATE, json!(gauges.rate)),
        (metrics::CONCURRENCY, json!(gauges.concurrency)),
        (metrics::ERROR_RATE, json!(error_rate)),
    ]
    .map(|(metric, value)| (metric.name.to_owned(), value))
}

/// Formats bounds with cumulative counts, as on the page.
fn histogram_object(histogram: &HistogramSnapshot) -> Value {
    let mut cumulative = 0;
    let mut buckets = Map::new();
    for (bound, count) in &histogram.buckets {
        cumulative += count;
        let bound = if bound.is_finite() {
            bound.to_string()
        } else {
            "+Inf".to_owned()
        };
        buckets.insert(bound, json!(cumulative));
    }
    json!({ "sum": histogram.sum, "count": histogram.count, "buckets": buckets })
}
