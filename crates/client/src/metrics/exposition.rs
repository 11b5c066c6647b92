//! The page that Prometheus reads.
//!
//! The library knows the format, its escapes and its rules; this file says what is on the page, in an
//! order that never changes, so that two scrapes can be compared as text. A counter is handed over
//! without its `_total`, which the library adds.

use std::fmt;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::exemplar::Exemplar;

use super::counters::{ApiCounters, GlobalCounters, LabelCounter};
use super::family::{MetricSample, SampleValue};
use super::gauges::GaugeSnapshot;
use super::groups::{CIRCUITS, GroupCells, GroupCounters};
use super::histogram::{Histogram, HistogramSnapshot, HistogramUnit};
use super::recorder::MetricsBoard;
use super::{Metric, MetricKind, label};
use crate::event::StatusLabel;

/// What the page is, for the `Content-Type` of its answer.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

type Standing = [(Arc<ApiCounters>, Option<GaugeSnapshot>)];

impl Collector for MetricsBoard {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let standing = self.standing();
        let mut page = ExpositionPage {
            encoder,
            standing: &standing,
        };
        page.calls()?;
        page.state()?;
        page.admission()?;
        page.cache()?;
        page.process(self)?;
        page.further(self)
    }
}

struct ExpositionPage<'e, 's> {
    encoder: DescriptorEncoder<'e>,
    standing: &'s Standing,
}

impl ExpositionPage<'_, '_> {
    fn calls(&mut self) -> fmt::Result {
        self.counters(super::CALLS, |api| api.calls.total())?;
        self.durations()?;
        self.counters(super::ABANDONED, |api| api.abandoned.total())?;
        self.tallies(super::FAILURES, |api| &api.failures)?;
        self.histograms(super::WAIT, HistogramUnit::Seconds, |api| &api.waits)?;
        self.codes()?;
        self.histograms(super::LATENCY, HistogramUnit::Millis, |api| &api.latency)?;
        self.histograms(super::SLEEP, HistogramUnit::Millis, |api| &api.sleep)?;
        self.tallies(super::RETRIES, |api| &api.retries)?;
        self.tallies(super::UNRESOLVED, |api| &api.unresolved)
    }

    fn state(&mut self) -> fmt::Result {
        self.circuits()?;
        self.readings(super::COUNT_2XX, |api| f64::from(api.counts.success))?;
        self.readings(super::COUNT_429, |api| f64::from(api.counts.throttled))?;
        self.readings(super::COUNT_5XX, |api| f64::from(api.counts.server))?;
        self.readings(super::COUNT_OTHER, |api| {
            f64::from(api.counts.network) + f64::from(api.counts.other)
        })?;
        self.readings(super::RATE, |api| api.rate)?;
        self.readings(super::CONCURRENCY, |api| f64::from(api.concurrency))?;
        self.readings(super::ERROR_RATE, |api| {
            f64::from(api.error_ppm) / 1_000_000.0
        })?;
        self.tallies(super::TRANSITIONS, |api| &api.transitions)
    }

    fn admission(&mut self) -> fmt::Result {
        self.readings(super::WAITING, |api| whole(api.waiting))?;
        self.readings(super::IN_FLIGHT, |api| whole(api.in_flight))?;
        self.group_counters(super::ADMITTED, |group| group.admitted.total())?;
        self.refusals()?;
        self.group_counters(super::REFUNDED, |group| group.refunded.total())?;
        self.group_gauges(super::DRIFT, GroupCounters::drift)?;
        self.group_gauges(super::USAGE_ALERT, |group| f64::from(group.alert()))?;
        self.foreign()?;
        self.counters(super::MALFORMED, |api| api.malformed.total())?;
        self.tallies(super::WARNINGS, |api| &api.warnings)
    }

    fn cache(&mut self) -> fmt::Result {
        self.counters(super::CACHE_HITS, GlobalCounters::cache_hits)?;
        self.counters(super::CACHE_MISSES, GlobalCounters::cache_misses)?;
        self.tallies(super::LOOKUPS, |api| &api.lookups)
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
        series.gauge(&[], f64::from(board.reloads.ok()))
    }

    /// What others tell. A metric that is told twice would make the whole page unreadable.
    fn further(&mut self, board: &MetricsBoard) -> fmt::Result {
        let mut told = Vec::new();
        let all = board.families.load();
        for family in all.iter().flat_map(|one| one.families()) {
            if told.contains(&family.metric.name) {
                continue;
            }
            told.push(family.metric.name);
            let mut series = describe(&mut self.encoder, family.metric)?;
            for sample in &family.samples {
                series.sample(sample)?;
            }
        }
        Ok(())
    }

    /// One counter for each API.
    fn counters(&mut self, metric: Metric, value: impl Fn(&GlobalCounters) -> u64) -> fmt::Result {
        let mut series = describe(&mut self.encoder, metric)?;
        for (api, _) in self.standing {
            series.count(&[(label::API, &api.name)], value(&api.whole))?;
        }
        Ok(())
    }

    /// One counter for each API and word of a closed set.
    fn tallies<const N: usize>(
        &mut self,
        metric: Metric,
        tally: impl Fn(&GlobalCounters) -> &LabelCounter<N>,
    ) -> fmt::Result {
        let mut series = describe(&mut self.encoder, metric)?;
        let name = metric.labels.last().copied().unwrap_or_default();
        for (api, _) in self.standing {
            for (word, count) in tally(&api.whole).iter() {
                series.count(&[(label::API, &api.name), (name, word)], count)?;
            }
        }
        Ok(())
    }

    fn histograms(
        &mut self,
        metric: Metric,
        unit: HistogramUnit,
        of: impl Fn(&GlobalCounters) -> &Histogram,
    ) -> fmt::Result {
        let mut series = describe(&mut self.encoder, metric)?;
        for (api, _) in self.standing {
            series.histogram(&[(label::API, &api.name)], of(&api.whole), unit)?;
        }
        Ok(())
    }

    fn durations(&mut self) -> fmt::Result {
        let mut series = describe(&mut self.encoder, super::DURATION)?;
        for (api, _) in self.standing {
            for (status, spans) in StatusLabel::ALL.iter().zip(&api.whole.durations) {
                let labels = [
                    (label::API, api.name.as_str()),
                    (label::STATUS, status.name()),
                ];
                series.histogram(&labels, spans, HistogramUnit::Seconds)?;
            }
        }
        Ok(())
    }

    fn codes(&mut self) -> fmt::Result {
        let mut series = describe(&mut self.encoder, super::REQUESTS)?;
        for (api, _) in self.standing {
            for (code, count) in api.whole.codes.seen() {
                series.count(&[(label::API, &api.name), (label::CODE, &code)], count)?;
            }
        }
        Ok(())
    }

    fn circuits(&mut self) -> fmt::Result {
        let mut series = describe(&mut self.encoder, super::CIRCUIT)?;
        for (api, reading) in self.standing {
            let now =
                reading.map_or_else(|| api.groups.circuit(), |reading| reading.state.circuit());
            for circuit in CIRCUITS {
                let labels = [
                    (label::API, api.name.as_str()),
                    (label::STATE, circuit.name()),
                ];
                series.gauge(&labels, f64::from(u8::from(circuit == now)))?;
            }
        }
        Ok(())
    }

    /// What sources tell; an API that none of them knows has no series, rather than a false zero.
    fn readings(&mut self, metric: Metric, value: impl Fn(&GaugeSnapshot) -> f64) -> fmt::Result {
        let mut series = describe(&mut self.encoder, metric)?;
        for (api, reading) in self.standing {
            if let Some(reading) = reading {
                series.gauge(&[(label::API, &api.name)], value(reading))?;
            }
        }
        Ok(())
    }

    fn group_counters(
        &mut self,
        metric: Metric,
        value: impl Fn(&GroupCounters) -> u64,
    ) -> fmt::Result {
        let mut series = describe(&mut self.encoder, metric)?;
        for (api, _) in self.standing {
            for group in api.groups.callable() {
                series.count(&labels(api, group), value(group.read()))?;
            }
        }
        Ok(())
    }

    fn group_gauges(
        &mut self,
        metric: Metric,
        value: impl Fn(&GroupCounters) -> f64,
    ) -> fmt::Result {
        let mut series = describe(&mut self.encoder, metric)?;
        for (api, _) in self.standing {
            for group in api.groups.iter() {
                series.gauge(&labels(api, group), value(group.read()))?;
            }
        }
        Ok(())
    }

    fn refusals(&mut self) -> fmt::Result {
        let mut series = describe(&mut self.encoder, super::REFUSED)?;
        for (api, _) in self.standing {
            for group in api.groups.callable() {
                for (cause, count) in group.read().refused.iter() {
                    let [api, group] = labels(api, group);
                    series.count(&[api, group, (label::CAUSE, cause)], count)?;
                }
            }
        }
        Ok(())
    }

    fn foreign(&mut self) -> fmt::Result {
        let mut series = describe(&mut self.encoder, super::FOREIGN)?;
        for (api, _) in self.standing {
            for group in api.groups.iter() {
                series.count(&labels(api, group), group.read().foreign.total())?;
            }
        }
        Ok(())
    }
}

fn labels<'a>(api: &'a ApiCounters, group: &'a GroupCells) -> [(&'static str, &'a str); 2] {
    [(label::API, &api.name), (label::GROUP, &group.name)]
}

/// A count as a gauge; more than four billion are told as so many.
fn whole(count: u64) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}

/// Begins a metric and answers where its series are written.
fn describe<'s>(
    encoder: &'s mut DescriptorEncoder<'_>,
    metric: Metric,
) -> Result<SeriesWriter<'s>, fmt::Error> {
    let name = metric.name.strip_suffix("_total").unwrap_or(metric.name);
    let encoder =
        encoder.encode_descriptor(name, metric.help, None, metric.kind.to_metric_type())?;
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

/// What tells one series from the others.
type Labels<'a> = &'a [(&'static str, &'a str)];

impl SeriesWriter<'_> {
    fn count(&mut self, labels: Labels<'_>, value: u64) -> fmt::Result {
        let none: Option<&Exemplar<NoLabelSet, u64>> = None;
        if labels.is_empty() {
            return self.encoder.encode_counter(&value, none);
        }
        self.encoder
            .encode_family(&labels)?
            .encode_counter(&value, none)
    }

    fn gauge(&mut self, labels: Labels<'_>, value: f64) -> fmt::Result {
        if labels.is_empty() {
            return self.encoder.encode_gauge(&value);
        }
        self.encoder.encode_family(&labels)?.encode_gauge(&value)
    }

    fn sample(&mut self, sample: &MetricSample) -> fmt::Result {
        let labels = sample.labels.iter();
        let labels: Vec<_> = labels.map(|(name, word)| (*name, word.as_str())).collect();
        match &sample.value {
            SampleValue::Count(count) => self.count(&labels, *count),
            SampleValue::Level(level) => self.gauge(&labels, *level),
            SampleValue::Spans(filled) => self.filled(&labels, filled),
        }
    }

    fn histogram(
        &mut self,
        labels: Labels<'_>,
        spans: &Histogram,
        unit: HistogramUnit,
    ) -> fmt::Result {
        self.filled(labels, &spans.read(unit))
    }

    fn filled(&mut self, labels: Labels<'_>, filled: &HistogramSnapshot) -> fmt::Result {
        self.encoder
            .encode_family(&labels)?
            .encode_histogram::<NoLabelSet>(filled.sum, filled.count, &filled.buckets, None)
    }
}
