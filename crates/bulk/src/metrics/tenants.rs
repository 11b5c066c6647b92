//! Metrics of single tenants, a hundred at most.
//!
//! A label for each tenant would make a page that grows with the customers. The tenants with the most work have a
//! label, all others share one. A tenant gets its label with its first event while labels are free, and keeps it
//! until two samples in a row did not find it: between a submission and the next sample it is not finished.
//!
//! A metrics system keeps a series for weeks, also of a label that is gone. So a process gives labels to a thousand
//! different names in its life, and counts later ones as `other`. Their alerts go on.

use std::collections::{BTreeMap, BTreeSet};

use outflow::core::{Congestion, CongestionRule};
use outflow::metrics::{Histogram, HistogramUnit, MetricFamily, OTHER, SampleValue, bulk};
use outflow_core::{AlertChange, CongestionAlert, CongestionWatch, Nanos};
use outflow_store::Name;
use outflow_sync::Mutex;

use crate::maintenance::tenant_sampler::{TenantSample, TenantSnapshot};

/// Metrics of the tenants that have a label.
#[derive(Debug, Default)]
pub(super) struct TenantMetrics {
    gauges: Mutex<TenantGauges>,
}

#[derive(Debug, Default)]
struct TenantGauges {
    watched: BTreeMap<Name, TenantGauge>,
    /// Names that have or had a label.
    labelled: BTreeSet<Name>,
    rest: DeferredTimes,
}

/// State of one tenant.
#[derive(Debug, Default)]
struct TenantGauge {
    /// Its deferrals, if it has a label.
    deferred: Option<DeferredTimes>,
    watch: CongestionWatch,
    /// Number of samples in a row that did not find it.
    missed: u8,
}

/// Deferrals of jobs.
#[derive(Debug, Default)]
struct DeferredTimes {
    spans: Histogram,
    capped: u64,
}

/// Alert about a tenant that began or ended.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct AlertReport {
    pub(crate) tenant: Name,
    pub(crate) alert: CongestionAlert,
    pub(crate) change: AlertChange,
}

impl TenantMetrics {
    /// Records the deferral of a job.
    pub(super) fn deferred(&self, now: Nanos, tenant: &Name, met: &Congestion, rule: &CongestionRule) {
        let mut gauges = self.gauges.lock();
        if let Some(gauge) = gauges.get_mut(tenant) {
            gauge.watch.waited(now, met, rule);
        }
        let times = gauges.times_mut(tenant);
        times.spans.observe(met.backoff);
        times.capped += u64::from(rule.cuts_off(met));
    }

    /// Records the wait of a job that the formula would have deferred: no maximum cuts it off.
    pub(super) fn spared(&self, tenant: &Name, met: &Congestion) {
        self.gauges.lock().times_mut(tenant).spans.observe(met.backoff);
    }

    /// Sums up the tenants without a label.
    pub(super) fn sum_unlabelled(&self, snapshot: TenantSnapshot) -> TenantSnapshot {
        let gauges = self.gauges.lock();
        let is_labelled =
            |group: &TenantSample| Name::new(&group.name).is_ok_and(|name| gauges.labelled.contains(&name));
        let (groups, others): (Vec<_>, Vec<_>) = snapshot.groups.into_iter().partition(is_labelled);
        TenantSnapshot {
            groups,
            rest: TenantSample::sum(snapshot.rest.into_iter().chain(others)),
            ..snapshot
        }
    }

    /// Records a sample of the tenants with the most work, and returns the alerts that began or ended.
    pub(super) fn record_samples(&self, now: Nanos, groups: &[TenantSample]) -> Vec<AlertReport> {
        let mut gauges = self.gauges.lock();
        let mut alerts = gauges.remove_finished(groups);
        for group in groups {
            let Ok(tenant) = Name::new(&group.name) else {
                continue;
            };
            let Some(gauge) = gauges.get_mut(&tenant) else {
                continue;
            };
            let changes = gauge
                .watch
                .observe_counts(now, group.level, group.non_ready, group.throttles);
            alerts.extend(changes.map(|(alert, change)| AlertReport {
                tenant: tenant.clone(),
                alert,
                change,
            }));
        }
        alerts
    }

    pub(super) fn backoffs(&self) -> MetricFamily {
        let spans = |deferred: &DeferredTimes| SampleValue::Spans(deferred.spans.read(HistogramUnit::Millis));
        let gauges = self.gauges.lock();
        MetricFamily::by_word(
            bulk::BACKOFF,
            gauges.all().map(|(name, deferred)| (name, spans(deferred))),
        )
    }

    pub(super) fn capped(&self) -> MetricFamily {
        let gauges = self.gauges.lock();
        let capped = |(name, deferred): (_, &DeferredTimes)| (name, SampleValue::Count(deferred.capped));
        MetricFamily::by_word(bulk::CAPPED, gauges.all().map(capped))
    }
}

impl TenantGauges {
    /// Returns the gauge of a tenant, a new one if there is room for it.
    fn get_mut(&mut self, tenant: &Name) -> Option<&mut TenantGauge> {
        if !self.watched.contains_key(tenant) {
            if self.watched.len() >= MAX_LABELS {
                return None;
            }
            let deferred = self.has_label(tenant).then(DeferredTimes::default);
            let gauge = TenantGauge {
                deferred,
                ..TenantGauge::default()
            };
            self.watched.insert(tenant.clone(), gauge);
        }
        self.watched.get_mut(tenant)
    }

    /// Returns the deferrals of a tenant, or of all without a label.
    fn times_mut(&mut self, tenant: &Name) -> &mut DeferredTimes {
        let _room = self.get_mut(tenant);
        let gauge = self.watched.get_mut(tenant);
        gauge
            .and_then(|gauge| gauge.deferred.as_mut())
            .unwrap_or(&mut self.rest)
    }

    /// Returns true if the tenant had a label before, or gets one now.
    fn has_label(&mut self, tenant: &Name) -> bool {
        if self.labelled.len() < MAX_NAMES {
            self.labelled.insert(tenant.clone());
        }
        self.labelled.contains(tenant)
    }

    /// Removes tenants without work, and returns their alerts, which end.
    fn remove_finished(&mut self, found: &[TenantSample]) -> Vec<AlertReport> {
        let mut ended = Vec::new();
        self.watched.retain(|name, gauge| {
            let is_found = found.iter().any(|group| group.name == name.as_str());
            gauge.missed = if is_found { 0 } else { gauge.missed + 1 };
            let stays = gauge.missed < MAX_MISSED;
            if !stays {
                ended.extend(gauge.watch.raised().map(|alert| AlertReport {
                    tenant: name.clone(),
                    alert,
                    change: AlertChange::Cleared,
                }));
            }
            stays
        });
        ended
    }

    /// Returns all counted tenants, the rest last.
    fn all(&self) -> impl Iterator<Item = (&str, &DeferredTimes)> {
        let named = self.watched.iter();
        let named = named.filter_map(|(name, gauge)| Some((name.as_str(), gauge.deferred.as_ref()?)));
        let is_empty = self.rest.spans.read(HistogramUnit::Millis).count == 0;
        named.chain((!is_empty).then_some((OTHER, &self.rest)))
    }
}

/// Metrics systems handle this many labels of one metric well.
const MAX_LABELS: usize = 100;

/// A series of each costs a metrics system some megabytes a month.
const MAX_NAMES: usize = 1_000;

/// A sample may have begun before a job was submitted, the next cannot.
const MAX_MISSED: u8 = 2;

#[cfg(test)]
mod tests {
    use outflow::core::{CongestionLevel, ThrottleCounts};

    use super::*;

    fn name(number: usize) -> Name {
        Name::new(&format!("t{number:03}")).expect("a name")
    }

    fn group(name: &Name, level: CongestionLevel) -> TenantSample {
        TenantSample {
            name: name.to_string(),
            non_ready: 1,
            eta: None,
            level,
            throttles: ThrottleCounts::NONE,
        }
    }

    fn wait(tenants: &TenantMetrics, tenant: &Name) {
        let rule = CongestionRule::default();
        tenants.deferred(Nanos::ZERO, tenant, &rule.reading(200, 1), &rule);
    }

    fn labels(family: &MetricFamily) -> Vec<&str> {
        let label = |sample: &'_ outflow::metrics::MetricSample| sample.labels.first().map(|one| one.1.len());
        assert!(family.samples.iter().all(|sample| label(sample).is_some()));
        let words = family.samples.iter().flat_map(|sample| &sample.labels);
        words.map(|(_, word)| word.as_str()).collect()
    }

    // 150 tenants, one wait each: a hundred of them by name, and fifty in one.
    #[test]
    fn no_more_than_a_hundred_tenants_have_a_label() {
        let tenants = TenantMetrics::default();
        for number in 0..150 {
            wait(&tenants, &name(number));
        }
        let capped = tenants.capped();
        let words = labels(&capped);
        assert_eq!((words.len(), words.last()), (101, Some(&OTHER)));
        let other = capped.samples.last().map(|sample| sample.value.clone());
        assert_eq!(other, Some(SampleValue::Count(50)));
    }

    // Fifty new tenants with every two samples, for weeks: a thousand names get a label, the others are one.
    #[test]
    fn the_labels_of_tenants_that_come_and_go_are_bounded() {
        let (tenants, mut seen) = (TenantMetrics::default(), BTreeSet::new());
        for round in 0..100 {
            let names: Vec<_> = (0..50)
                .map(|number| Name::new(&format!("r{round}-t{number}")).expect("a name"))
                .collect();
            for tenant in &names {
                wait(&tenants, tenant);
            }
            let groups: Vec<_> = names.iter().map(|name| group(name, CongestionLevel::None)).collect();
            for second in [0, 1] {
                tenants.record_samples(Nanos::from_secs(round * 10 + second), &groups);
            }
            let snapshot = TenantSnapshot {
                groups,
                ..TenantSnapshot::default()
            };
            let snapshot = tenants.sum_unlabelled(snapshot);
            let shown = snapshot.groups.iter().chain(&snapshot.rest);
            seen.extend(shown.map(|group| group.name.clone()));
            seen.extend(labels(&tenants.capped()).into_iter().map(str::to_owned));
        }
        assert_eq!(seen.len(), MAX_NAMES + 1);
        assert!(seen.contains(OTHER), "the rest is counted");
    }

    #[test]
    fn a_finished_tenant_loses_its_label_at_the_second_sample() {
        let tenants = TenantMetrics::default();
        wait(&tenants, &name(1));
        wait(&tenants, &name(2));
        let found = [group(&name(2), CongestionLevel::None)];
        tenants.record_samples(Nanos::from_secs(5), &found);
        assert_eq!(labels(&tenants.backoffs()), ["t001", "t002"]);
        tenants.record_samples(Nanos::from_secs(10), &found);
        assert_eq!(labels(&tenants.backoffs()), ["t002"]);
    }

    // Critical for five minutes and one sample more; then the tenant has no work left.
    #[test]
    fn an_alert_ends_with_the_work_of_its_tenant() {
        let tenants = TenantMetrics::default();
        let found = [group(&name(1), CongestionLevel::Critical)];
        let mut alerts = Vec::new();
        for second in (0..=310).step_by(5) {
            let now = Nanos::from_secs(second);
            let changes = tenants.record_samples(now, &found);
            alerts.extend(changes.into_iter().map(|one| (second, one.alert, one.change)));
        }
        let raised = (300, CongestionAlert::Critical, AlertChange::Raised);
        assert_eq!(alerts, [raised]);
        assert_eq!(tenants.record_samples(Nanos::from_secs(315), &[]), []);
        let ended = AlertReport {
            tenant: name(1),
            alert: CongestionAlert::Critical,
            change: AlertChange::Cleared,
        };
        assert_eq!(tenants.record_samples(Nanos::from_secs(320), &[]), [ended]);
    }
}
