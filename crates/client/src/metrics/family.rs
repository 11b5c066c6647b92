//! Metrics of other crates on this page.
//!
//! Crates on top of this library have metrics of their own, and an operator wants one page. They
//! pass plain values, so that only this crate formats a page. Their names are in `names`, too.

use super::{HistogramSnapshot, Label, Metric};

/// Source of further metrics for the page.
pub trait FamilySource: Send + Sync {
    /// Returns all its metrics, each once. Called at each scrape; must not block.
    fn families(&self) -> Vec<MetricFamily>;
}

/// Metric with its series.
#[derive(Clone, PartialEq, Debug)]
pub struct MetricFamily {
    /// The metric.
    pub metric: Metric,
    /// Series; may be empty.
    pub samples: Vec<MetricSample>,
}

/// Series of a metric.
#[derive(Clone, PartialEq, Debug)]
pub struct MetricSample {
    /// Labels of the series.
    pub labels: Vec<(Label, String)>,
    /// Current value.
    pub value: SampleValue,
}

/// Value of a series.
#[derive(Clone, PartialEq, Debug)]
pub enum SampleValue {
    /// Value of a counter.
    Count(u64),
    /// Value of a gauge.
    Level(f64),
    /// Value of a histogram.
    Spans(HistogramSnapshot),
}

impl MetricFamily {
    /// Returns a metric without labels.
    pub fn alone(metric: Metric, value: SampleValue) -> Self {
        let labels = Vec::new();
        Self {
            metric,
            samples: vec![MetricSample { labels, value }],
        }
    }

    /// Returns a metric with one series per value of its only label.
    pub fn by_word<'w>(metric: Metric, values: impl IntoIterator<Item = (&'w str, SampleValue)>) -> Self {
        let label = metric.labels.first().copied().unwrap_or_default();
        let sample = |(word, value): (&str, SampleValue)| MetricSample {
            labels: vec![(label, word.to_owned())],
            value,
        };
        Self {
            metric,
            samples: values.into_iter().map(sample).collect(),
        }
    }
}
