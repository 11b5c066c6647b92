//! Metrics as lines of JSON, for who has no Prometheus.
//!
//! One object for each interval, with the same names and numbers as on the page: totals since the
//! start rather than differences, so that a line that is lost loses nothing. Whoever wants them in a
//! file hands the lines to [`LogSender`](crate::log::LogSender); the interval is theirs.

use outflow_core::{Timestamp, WallTime};
use serde_json::{Map, Value, json};

use crate::metrics::{self, ApiSummary, GaugeSnapshot, HistogramSnapshot, Metrics, key};

/// Everything now, as one line with its end.
///
/// ```
/// use outflow::core::WallTime;
/// use outflow::metrics::{Known, Metrics};
/// use outflow::ndjson;
///
/// let metrics = Metrics::new([Known::new("tmdb", [])]);
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
        metrics::LATENCY.name: histogram(&api.latency),
        metrics::SLEEP.name: histogram(&api.sleep),
    });
    if let (Some(object), Some(reading)) = (object.as_object_mut(), &api.reading) {
        object.extend(standing(reading));
    }
    object
}

fn standing(reading: &GaugeSnapshot) -> [(String, Value); 7] {
    let counts = &reading.counts;
    let other = u64::from(counts.network) + u64::from(counts.other);
    let error_rate = f64::from(reading.error_ppm) / 1_000_000.0;
    [
        (metrics::COUNT_2XX, json!(counts.success)),
        (metrics::COUNT_429, json!(counts.throttled)),
        (metrics::COUNT_5XX, json!(counts.server)),
        (metrics::COUNT_OTHER, json!(other)),
        (metrics::RATE, json!(reading.rate)),
        (metrics::CONCURRENCY, json!(reading.concurrency)),
        (metrics::ERROR_RATE, json!(error_rate)),
    ]
    .map(|(metric, value)| (metric.name.to_owned(), value))
}

/// Bounds and how many values are at most so large, as on the page.
fn histogram(filled: &HistogramSnapshot) -> Value {
    let mut below = 0;
    let mut buckets = Map::new();
    for (bound, count) in &filled.buckets {
        below += count;
        let bound = if bound.is_finite() {
            bound.to_string()
        } else {
            "+Inf".to_owned()
        };
        buckets.insert(bound, json!(below));
    }
    json!({ "sum": filled.sum, "count": filled.count, "buckets": buckets })
}
