//! Metrics and the page that shows them.
//!
//! This file defines a metric; `names` holds all names and the other modules the counters. Only
//! `recorder` reads events.

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
pub use names::{OTHER, bulk, label, sidecar};
pub use recorder::{ApiLabels, Metrics};
pub(crate) use summary::ApiSummary;

/// Metric: name, kind and labels.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Metric {
    /// Name as Prometheus shows it.
    pub name: &'static str,
    /// Kind.
    pub kind: MetricKind,
    /// Labels of its series.
    pub labels: &'static [&'static str],
    /// Help text.
    pub help: &'static str,
}

/// Kind of a metric.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MetricKind {
    /// Only grows.
    Counter,
    /// Shows the current value.
    Gauge,
    /// Counts values by size.
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

    const fn new(name: &'static str, kind: MetricKind, labels: &'static [Label], help: &'static str) -> Self {
        Self {
            name,
            kind,
            labels,
            help,
        }
    }
}

/// Name of a label.
pub type Label = &'static str;

/// Key of a log line.
pub(crate) type Key = &'static str;
