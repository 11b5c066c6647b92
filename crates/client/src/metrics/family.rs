//! Metrics of somebody else on the same page.
//!
//! What is built on this library has numbers of its own, and an operator wants one page. It hands them
//! over as plain values, so that how a page is written stays known here alone. The names are ours to
//! give: they stand with all others.

use super::{HistogramSnapshot, Label, Metric};

/// Somebody whose metrics follow ours on the page.
pub trait FamilySource: Send + Sync {
    /// All of its metrics, each once. It is asked at each scrape and must not wait for anything.
    fn families(&self) -> Vec<MetricFamily>;
}

/// A metric and its series.
#[derive(Clone, PartialEq, Debug)]
pub struct MetricFamily {
    /// The metric.
    pub metric: Metric,
    /// Its series; none leaves it without any.
    pub samples: Vec<MetricSample>,
}

/// One series.
#[derive(Clone, PartialEq, Debug)]
pub struct MetricSample {
    /// What tells it from the others.
    pub labels: Vec<(Label, String)>,
    /// What it is now.
    pub value: SampleValue,
}

/// What a series is now.
#[derive(Clone, PartialEq, Debug)]
pub enum SampleValue {
    /// Of a counter.
    Count(u64),
    /// Of a gauge.
    Level(f64),
    /// Of a histogram.
    Spans(HistogramSnapshot),
}

impl MetricFamily {
    /// A metric without labels.
    pub fn alone(metric: Metric, value: SampleValue) -> Self {
        let labels = Vec::new();
        Self {
            metric,
            samples: vec![MetricSample { labels, value }],
        }
    }

    /// A metric with one series for each word of its only label.
    pub fn by_word<'w>(
        metric: Metric,
        values: impl IntoIterator<Item = (&'w str, SampleValue)>,
    ) -> Self {
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
