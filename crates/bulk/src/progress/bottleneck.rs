//! Bounds other than limits that hold jobs back: concurrency and workers.
//!
//! Limits are meant to bind. If calls in flight or workers bind instead, jobs take longer than their limits need,
//! and only a setting helps. So the board and the progress say it in a sentence that names the setting.

use std::collections::BTreeSet;

use outflow_store::JobStore;

use crate::engine::{Engine, EngineContext};
use crate::settings::WorkerBounds;
use crate::submit::lane::Lane;

impl<S> EngineContext<S> {
    /// Returns the bounds of the worker pool: by default enough that the limits of the APIs with jobs bind.
    pub(crate) fn worker_bounds(&self) -> WorkerBounds {
        let settings = self.settings.load();
        let apis = self.served_apis();
        let apis = apis.iter().filter_map(|api| self.client.api(api));
        let in_flight: u64 = apis.map(|api| u64::from(settings.calls_in_flight(&api.rules))).sum();
        settings
            .workers
            .bounds(usize::try_from(in_flight).unwrap_or(usize::MAX))
    }

    /// Returns the APIs that have, or had, jobs.
    fn served_apis(&self) -> BTreeSet<String> {
        let lanes = self.served_lanes.lock();
        let apis = lanes.iter().filter_map(|lane| match Lane::from_name(lane) {
            Lane::Api { api, .. } => Some(api),
            Lane::Handler(_) => None,
        });
        apis.collect()
    }

    /// Returns a sentence for each API whose concurrency binds.
    fn full_apis(&self) -> Vec<String> {
        let apis = self.served_apis();
        let upstreams = apis.iter().filter_map(|api| self.client.upstream(api));
        let bounds = upstreams.flat_map(|upstream| {
            let bounds = upstream.concurrency_bounds().into_iter();
            bounds.map(move |(group, bound)| match group {
                None => format!("{}: {bound}", upstream.name()),
                Some(group) => format!("{}/{group}: {bound}", upstream.name()),
            })
        });
        bounds.collect()
    }
}

impl<S: JobStore> Engine<S> {
    /// Returns a sentence for each bound other than a limit that holds the queued jobs back now.
    pub fn bottlenecks(&self, queued: u64) -> Vec<String> {
        if queued == 0 {
            return Vec::new();
        }
        let mut sentences = self.context.full_apis();
        let (all, busy) = self.worker_usage();
        // By default there are so many workers that limits bind: all are busy while they wait for one.
        let is_bounded = self.context.settings.load().workers.max.is_some();
        if is_bounded && busy >= all && all >= self.context.worker_bounds().max {
            sentences.push(format!(
                "{busy} of {all} workers are busy: workers bind, not a limit; raise `bulk.workers.max`"
            ));
        }
        sentences
    }
}
