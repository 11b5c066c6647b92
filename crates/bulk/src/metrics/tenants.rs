//! What is counted of single tenants: of a hundred at most, whatever the number of tenants is.
//!
//! A label for each tenant would make a page that grows with the customers. Those with the most work have
//! one, the rest is told together. A tenant has its place as soon as it is heard of while there is one,
//! and keeps it until two looks in a row did not find it: between a submission and the next look it must
//! not be taken for one that is finished.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use outflow::core::{Congestion, CongestionRule};
use outflow::metrics::{Histogram, HistogramUnit, MetricFamily, OTHER, SampleValue, bulk};
use outflow_core::{AlertChange, CongestionAlert, CongestionWatch, Nanos};
use outflow_store::Name;

use crate::tenant_sampler::TenantSample;

/// The tenants that have a place.
#[derive(Debug, Default)]
pub(super) struct TenantMetrics {
    places: Mutex<TenantGauges>,
}

#[derive(Debug, Default)]
struct TenantGauges {
    named: BTreeMap<Name, TenantGauge>,
    rest: DeferredTimes,
}

/// One tenant.
#[derive(Debug, Default)]
struct TenantGauge {
    waits: DeferredTimes,
    watch: CongestionWatch,
    /// How many looks in a row did not find it.
    missed: u8,
}

/// How long jobs were put off.
#[derive(Debug, Default)]
struct DeferredTimes {
    spans: Histogram,
    capped: u64,
}

/// What is to be told of a tenant.
pub(super) type Told = (Name, CongestionAlert, AlertChange);

impl TenantMetrics {
    fn lock(&self) -> MutexGuard<'_, TenantGauges> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A job of this tenant was put off.
    pub(super) fn waited(
        &self,
        now: Nanos,
        tenant: &Name,
        met: &Congestion,
        rule: &CongestionRule,
    ) {
        let mut places = self.lock();
        match places.get_mut(tenant) {
            Some(place) => {
                place.waits.count(met, rule);
                place.watch.waited(now, met, rule);
            }
            None => places.rest.count(met, rule),
        }
    }

    /// These have the most work now. Answers what is to be told.
    pub(super) fn record_samples(&self, now: Nanos, groups: &[TenantSample]) -> Vec<Told> {
        let mut places = self.lock();
        let mut told = places.leave(groups);
        for group in groups {
            let Ok(name) = Name::new(&group.name) else {
                continue;
            };
            let Some(place) = places.get_mut(&name) else {
                continue;
            };
            let changes = place
                .watch
                .observe_counts(now, group.level, group.non_ready, group.throttles);
            told.extend(changes.map(|(alert, change)| (name.clone(), alert, change)));
        }
        told
    }

    pub(super) fn backoffs(&self) -> MetricFamily {
        let spans =
            |waits: &DeferredTimes| SampleValue::Spans(waits.spans.read(HistogramUnit::Millis));
        let places = self.lock();
        MetricFamily::by_word(
            bulk::BACKOFF,
            places.all().map(|(name, waits)| (name, spans(waits))),
        )
    }

    pub(super) fn capped(&self) -> MetricFamily {
        let places = self.lock();
        let capped = |(name, waits): (_, &DeferredTimes)| (name, SampleValue::Count(waits.capped));
        MetricFamily::by_word(bulk::CAPPED, places.all().map(capped))
    }
}

impl TenantGauges {
    /// The place of a tenant, a new one if there is room.
    fn get_mut(&mut self, tenant: &Name) -> Option<&mut TenantGauge> {
        if self.named.len() >= MOST && !self.named.contains_key(tenant) {
            return None;
        }
        Some(self.named.entry(tenant.clone()).or_default())
    }

    /// Takes the places of those who are gone, and answers what was told of them and is over.
    fn leave(&mut self, found: &[TenantSample]) -> Vec<Told> {
        let mut told = Vec::new();
        self.named.retain(|name, place| {
            let is_found = found.iter().any(|group| group.name == name.as_str());
            place.missed = if is_found { 0 } else { place.missed + 1 };
            let stays = place.missed < LOOKS;
            if !stays {
                let raised = place.watch.raised();
                told.extend(raised.map(|alert| (name.clone(), alert, AlertChange::Cleared)));
            }
            stays
        });
        told
    }

    /// Everybody who was counted, the rest last.
    fn all(&self) -> impl Iterator<Item = (&str, &DeferredTimes)> {
        let named = self.named.iter();
        let named = named.map(|(name, place)| (name.as_str(), &place.waits));
        let is_empty = self.rest.spans.read(HistogramUnit::Millis).count == 0;
        named.chain((!is_empty).then_some((OTHER, &self.rest)))
    }
}

impl DeferredTimes {
    fn count(&mut self, met: &Congestion, rule: &CongestionRule) {
        self.spans.observe(met.backoff);
        self.capped += u64::from(rule.cuts_off(met));
    }
}

/// As many as a page should have of one metric.
const MOST: usize = 100;

/// A look may have begun before a job came in, the next cannot.
const LOOKS: u8 = 2;

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
            level,
            throttles: ThrottleCounts::NONE,
        }
    }

    fn wait(tenants: &TenantMetrics, tenant: &Name) {
        let rule = CongestionRule::default();
        tenants.waited(Nanos::ZERO, tenant, &rule.reading(200, 1), &rule);
    }

    fn labels(family: &MetricFamily) -> Vec<&str> {
        let of = |sample: &'_ outflow::metrics::MetricSample| {
            sample.labels.first().map(|one| one.1.len())
        };
        assert!(family.samples.iter().all(|sample| of(sample).is_some()));
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

    #[test]
    fn a_finished_tenant_is_gone_at_the_second_look_and_leaves_room() {
        let tenants = TenantMetrics::default();
        wait(&tenants, &name(1));
        wait(&tenants, &name(2));
        let found = [group(&name(2), CongestionLevel::None)];
        tenants.record_samples(Nanos::from_secs(5), &found);
        assert_eq!(labels(&tenants.backoffs()), ["t001", "t002"]);
        tenants.record_samples(Nanos::from_secs(10), &found);
        assert_eq!(labels(&tenants.backoffs()), ["t002"]);
    }

    // Critical for five minutes and a look more; then the tenant has no work left.
    #[test]
    fn an_alert_ends_with_the_work_that_it_was_about() {
        let tenants = TenantMetrics::default();
        let found = [group(&name(1), CongestionLevel::Critical)];
        let mut told = Vec::new();
        for second in (0..=310).step_by(5) {
            let now = Nanos::from_secs(second);
            let changes = tenants.record_samples(now, &found);
            told.extend(changes.into_iter().map(|one| (second, one.1, one.2)));
        }
        let raised = (300, CongestionAlert::Critical, AlertChange::Raised);
        assert_eq!(told, [raised]);
        assert_eq!(tenants.record_samples(Nanos::from_secs(315), &[]), []);
        let over = (name(1), CongestionAlert::Critical, AlertChange::Cleared);
        assert_eq!(tenants.record_samples(Nanos::from_secs(320), &[]), [over]);
    }
}
