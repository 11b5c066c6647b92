//! Prometheus page.
//!
//! The library knows the format and its escapes; this file defines the content in a fixed order, so
//! that two scrapes can be compared as text. Counters are passed without `_total`, which the
//! library appends.

use std::fmt;
use std::sync::Arc;

use outflow_core::CircuitState;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::exemplar::Exemplar;

use super::counters::{ApiCounters, GlobalCounters, LabelCounter};
use super::family::{MetricSample, SampleValue};
use super::gauges::GaugeSnapshot;
use super::groups::{GroupCells, GroupCounters};
use super::histogram::{Histogram, HistogramSnapshot, HistogramUnit};
use super::recorder::MetricsBoard;
use super::{Metric, MetricKind, label};
use crate::event::StatusLabel;

/// `Content-Type` of the page.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

type ApiRows = [(Arc<ApiCounters>, Option<GaugeSnapshot>)];

impl Collector for MetricsBoard {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let apis = self.rows();
        let mut page = ExpositionPage { encoder, apis: &apis };
        page.calls()?;
        page.state()?;
        page.permits()?;
        page.cache()?;
        page.process(self)?;
        page.other_families(self)
    }
}

struct ExpositionPage<'e, 's> {
    encoder: DescriptorEncoder<'e>,
    apis: &'s ApiRows,
}

impl ExpositionPage<'_, '_> {
    fn calls(&mut self) -> fmt::Result {
        self.counters(super::CALLS, |api| api.calls.total())?;
        self.durations()?;
        self.counters(super::ABANDONED, |api| api.abandoned.total())?;
        self.label_counters(super::FAILURES, |api| &api.failures)?;
        self.histograms(super::WAIT, HistogramUnit::Seconds, |api| &api.waits)?;
        self.codes()?;
        self.histograms(super::LATENCY, HistogramUnit::Millis, |api| &api.latency)?;
        self.histograms(super::SLEEP, HistogramUnit::Millis, |api| &api.sleep)?;
        self.label_counters(super::RETRIES, |api| &api.retries)?;
        self.label_counters(super::UNRESOLVED, |api| &api.unresolved)
    }

    fn state(&mut self) -> fmt::Result {
        self.circuits()?;
        self.gauges(super::COUNT_2XX, |api| f64::from(api.counts.success))?;
        self.gauges(super::COUNT_429, |api| f64::from(api.counts.throttled))?;
        self.gauges(super::COUNT_5XX, |api| f64::from(api.counts.server))?;
        self.gauges(super::COUNT_OTHER, |api| {
            f64::from(api.counts.network) + f64::from(api.counts.other)
        })?;
        self.gauges(super::RATE, |api| api.rate)?;
        self.gauges(super::CONCURRENCY, |api| f64::from(api.concurrency))?;
        self.gauges(super::ERROR_RATE, |api| f64::from(api.error_ppm) / 1_000_000.0)?;
        self.label_counters(super::TRANSITIONS, |api| &api.transitions)
    }

    fn permits(&mut self) -> fmt::Result {
        self.gauges(super::WAITING, |api| to_gauge(api.waiting))?;
        self.gauges(super::IN_FLIGHT, |api| to_gauge(api.in_flight))?;
        self.group_counters(super::ADMITTED, |group| group.admitted.total())?;
        self.refusals()?;
        self.group_counters(super::REFUNDED, |group| group.refunded.total())?;
        self.group_gauges(super::DRIFT, GroupCounters::drift)?;
        self.group_gauges(super::USAGE_ALERT, |group| f64::from(group.alert()))?;
        self.foreign()?;
        self.counters(super::MALFORMED, |api| api.malformed.total())?;
        self.label_counters(super::WARNINGS, |api| &api.warnings)
    }

    fn cache(&mut self) -> fmt::Result {
        self.counters(super::CACHE_HITS, GlobalCounters::cache_hits)?;
        self.counters(super::CACHE_MISSES, GlobalCounters::cache_misses)?;
        self.label_counters(super::LOOKUPS, |api| &api.lookups)
    }

    fn process(&mut self, board: &MetricsBoard) -> fmt::Result {
        let mut series = describe(&mut self.encoder, super::TASK_RESTARTS)?;
        for task in board.tasks.iter() {
            series.count(&[(label::TASK, task.name)], task.restarts())?;
        }
        let mut series = describe(&mut self.encoder, super::TASK_RUNNING)?;
        for task in board.tasks.iter() {
            series.gauge(&[(label::TASK, task.name)], f64::from(task.running()))?;
        }
        let mut series = describe(&mut self.encoder, super::LINES_DROPPED)?;
        series.count(&[], board.lines_dropped())?;
        let mut series = describe(&mut self.encoder, super::RELOADS)?;
        for (result, total) in board.reloads.totals() {
            series.count(&[(label::RESULT, result)], total)?;
        }
        let mut series = describe(&mut self.encoder, super::RELOAD_OK)?;
        series.gauge(&[], f64::from(board.reloads.ok_gauge()))
    }

    /// Writes the metrics of other sources. A repeated metric would make the page invalid, so the
    /// first one counts.
    fn other_families(&mut self, board: &MetricsBoard) -> fmt::Result {
        let mut written = Vec::new();
        let all = board.families.load();
        for family in all.iter().flat_map(|one| one.families()) {
            if written.contains(&family.metric.name) {
                continue;
            }
            written.push(family.metric.name);
            let mut series = describe(&mut self.encoder, family.metric)?;
            for sample in &family.samples {
                series.sample(sample)?;
            }
        }
        Ok(())
    }

    /// Writes the series of a metric API by API.
    fn each_api(
        &mut self,
        metric: Metric,
        write: impl Fn(&mut SeriesWriter<'_>, &ApiCounters, Option<&GaugeSnapshot>) -> fmt::Result,
    ) -> fmt::Result {
        let mut series = describe(&mut self.encoder, metric)?;
        let mut apis = self.apis.iter();
        apis.try_for_each(|(api, gauges)| write(&mut series, api, gauges.as_ref()))
    }

    /// Writes one counter per API.
    fn counters(&mut self, metric: Metric, value: impl Fn(&GlobalCounters) -> u64) -> fmt::Result {
        self.each_api(metric, |series, api, _| {
            series.count(&[(label::API, &api.name)], value(&api.api_wide))
        })
    }

    /// Writes one counter per API and value of a closed set.
    fn label_counters<const N: usize>(
        &mut self,
        metric: Metric,
        counter: impl Fn(&GlobalCounters) -> &LabelCounter<N>,
    ) -> fmt::Result {
        let name = metric.labels.last().copied().unwrap_or_default();
        self.each_api(metric, |series, api, _| {
            let mut counts = counter(&api.api_wide).iter();
            counts.try_for_each(|(value, count)| series.count(&[(label::API, &api.name), (name, value)], count))
        })
    }

    fn histograms(
        &mut self,
        metric: Metric,
        unit: HistogramUnit,
        histogram: impl Fn(&GlobalCounters) -> &Histogram,
    ) -> fmt::Result {
        self.each_api(metric, |series, api, _| {
            series.histogram(&[(label::API, &api.name)], &histogram(&api.api_wide).read(unit))
        })
    }

    fn durations(&mut self) -> fmt::Result {
        self.each_api(super::DURATION, |series, api, _| {
            let mut durations = StatusLabel::ALL.iter().zip(&api.api_wide.durations);
            durations.try_for_each(|(status, spans)| {
                let labels = [(label::API, api.name.as_str()), (label::STATUS, status.name())];
                series.histogram(&labels, &spans.read(HistogramUnit::Seconds))
            })
        })
    }

    fn codes(&mut self) -> fmt::Result {
        self.each_api(super::REQUESTS, |series, api, _| {
            let mut codes = api.api_wide.codes.nonzero();
            codes.try_for_each(|(code, count)| series.count(&[(label::API, &api.name), (label::CODE, &code)], count))
        })
    }

    fn circuits(&mut self) -> fmt::Result {
        self.each_api(super::CIRCUIT, |series, api, gauges| {
            let now = gauges.map_or_else(|| api.groups.circuit(), |gauges| gauges.state.circuit());
            CircuitState::ALL.iter().try_for_each(|circuit| {
                let labels = [(label::API, api.name.as_str()), (label::STATE, circuit.name())];
                series.gauge(&labels, f64::from(u8::from(*circuit == now)))
            })
        })
    }

    /// Writes gauges of sources; an unknown API has no series rather than a false zero.
    fn gauges(&mut self, metric: Metric, value: impl Fn(&GaugeSnapshot) -> f64) -> fmt::Result {
        self.each_api(metric, |series, api, gauges| match gauges {
            Some(gauges) => series.gauge(&[(label::API, &api.name)], value(gauges)),
            None => Ok(()),
        })
    }

    fn group_counters(&mut self, metric: Metric, value: impl Fn(&GroupCounters) -> u64) -> fmt::Result {
        self.each_api(metric, |series, api, _| {
            let mut groups = api.groups.callable();
            groups.try_for_each(|group| series.count(&labels(api, group), value(group.read())))
        })
    }

    fn group_gauges(&mut self, metric: Metric, value: impl Fn(&GroupCounters) -> f64) -> fmt::Result {
        self.each_api(metric, |series, api, _| {
            let mut groups = api.groups.iter();
            groups.try_for_each(|group| series.gauge(&labels(api, group), value(group.read())))
        })
    }

    fn refusals(&mut self) -> fmt::Result {
        self.each_api(super::REFUSED, |series, api, _| {
            for group in api.groups.callable() {
                let [api, group_label] = labels(api, group);
                for (cause, count) in group.read().refused.iter() {
                    series.count(&[api, group_label, (label::CAUSE, cause)], count)?;
                }
            }
            Ok(())
        })
    }

    fn foreign(&mut self) -> fmt::Result {
        self.each_api(super::FOREIGN, |series, api, _| {
            let mut groups = api.groups.iter();
            groups.try_for_each(|group| series.count(&labels(api, group), group.read().foreign.total()))
        })
    }
}

fn labels<'a>(api: &'a ApiCounters, group: &'a GroupCells) -> [(&'static str, &'a str); 2] {
    [(label::API, &api.name), (label::GROUP, &group.name)]
}

/// Converts a count to a gauge, capped at four billion.
fn to_gauge(count: u64) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}

/// Starts a metric and returns the writer of its series.
fn describe<'s>(encoder: &'s mut DescriptorEncoder<'_>, metric: Metric) -> Result<SeriesWriter<'s>, fmt::Error> {
    let name = metric.name.strip_suffix("_total").unwrap_or(metric.name);
    let encoder = encoder.encode_descriptor(name, metric.help, None, metric.kind.to_metric_type())?;
    Ok(SeriesWriter { encoder })
}

impl MetricKind {
    const fn to_metric_type(self) -> MetricType {
        match self {
            Self::Counter => MetricType::Counter,
            Self::Gauge => MetricType::Gauge,
            Self::Histogram => MetricType::Histogram,
        }
    }
}

struct SeriesWriter<'s> {
    encoder: MetricEncoder<'s>,
}

/// Labels of one series.
type Labels<'a> = &'a [(&'static str, &'a str)];

impl SeriesWriter<'_> {
    fn count(&mut self, labels: Labels<'_>, value: u64) -> fmt::Result {
        let none: Option<&Exemplar<NoLabelSet, u64>> = None;
        if labels.is_empty() {
            return self.encoder.encode_counter(&value, none);
        }
        self.encoder.encode_family(&labels)?.encode_counter(&value, none)
    }

    fn gauge(&mut self, labels: Labels<'_>, value: f64) -> fmt::Result {
        if labels.is_empty() {
            return self.encoder.encode_gauge(&value);
        }
        self.encoder.encode_family(&labels)?.encode_gauge(&value)
    }

    fn sample(&mut self, sample: &MetricSample) -> fmt::Result {
        let labels = sample.labels.iter();
        let labels: Vec<_> = labels.map(|(name, value)| (*name, value.as_str())).collect();
        match &sample.value {
            SampleValue::Count(count) => self.count(&labels, *count),
            SampleValue::Level(level) => self.gauge(&labels, *level),
            SampleValue::Spans(snapshot) => self.histogram(&labels, snapshot),
        }
    }

    fn histogram(&mut self, labels: Labels<'_>, snapshot: &HistogramSnapshot) -> fmt::Result {
        self.encoder.encode_family(&labels)?.encode_histogram::<NoLabelSet>(
            snapshot.sum,
            snapshot.count,
            &snapshot.buckets,
            None,
        )
    }
}
