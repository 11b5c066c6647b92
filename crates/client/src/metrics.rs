//! What is counted for whoever watches, and the page that it is read from.
//!
//! Here is what a metric is. Its name is in the one file that has all names, and what is counted in the
//! other files below this one. Nothing here reads an event.

mod counters;
mod exposition;
mod family;
mod gauges;
mod groups;
mod histogram;
mod names;
mod recorder;
mod reloads;
mod summary;
mod tasks;

pub use exposition::CONTENT_TYPE;
pub use family::{FamilySource, MetricFamily, MetricSample, SampleValue};
pub use gauges::{GaugeSnapshot, GaugeSource};
pub use histogram::{Histogram, HistogramSnapshot, HistogramUnit};
pub(crate) use names::*;
pub use names::{OTHER, bulk, label};
pub use recorder::{ApiLabels, Metrics};
pub(crate) use summary::ApiSummary;

/// A metric: its name, what it is and what tells its series apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Metric {
    /// As Prometheus shows it.
    pub name: &'static str,
    /// What it is.
    pub kind: MetricKind,
    /// Which labels its series have.
    pub labels: &'static [&'static str],
    /// What it tells.
    pub help: &'static str,
}

/// What a metric is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MetricKind {
    /// Only ever grows.
    Counter,
    /// Is what it is now.
    Gauge,
    /// Counts values by their size.
    Histogram,
}

impl Metric {
    const fn counter(name: &'static str, labels: &'static [Label], help: &'static str) -> Self {
        Self::new(name, MetricKind::Counter, labels, help)
    }

    const fn gauge(name: &'static str, labels: &'static [Label], help: &'static str) -> Self {
        Self::new(name, MetricKind::Gauge, labels, help)
    }

    const fn histogram(name: &'static str, labels: &'static [Label], help: &'static str) -> Self {
        Self::new(name, MetricKind::Histogram, labels, help)
    }

    const fn new(
        name: &'static str,
        kind: MetricKind,
        labels: &'static [Label],
        help: &'static str,
    ) -> Self {
        Self {
            name,
            kind,
            labels,
            help,
        }
    }
}

/// A label's name.
pub type Label = &'static str;

/// A log line's key.
pub(crate) type Key = &'static str;
