//! Refusals that a fixed wait would have given, less the actual ones.
//!
//! The formula predicts at submission how often a fixed wait refuses each job. A counter must not fall, and would if
//! it showed the whole prediction at once and then lost every refusal. So a prediction counts in proportion to the
//! jobs that ended. When the last job has ended, all of it counts, and the result is exact.

use outflow_sync::Mutex;

/// Predicted refusals of submitted jobs, and actual refusals.
#[derive(Debug, Default)]
pub(crate) struct SpinSavings {
    counts: Mutex<SpinCounts>,
}

#[derive(Debug, Default)]
struct SpinCounts {
    submitted: u64,
    ended: u64,
    predicted: u64,
    refused: u64,
    saved: u64,
}

impl SpinCounts {
    /// Updates the counter, which never falls.
    fn update(&mut self) {
        let due = u128::from(self.predicted) * u128::from(self.ended.min(self.submitted));
        let due = due / u128::from(self.submitted.max(1));
        let saved = due.saturating_sub(u128::from(self.refused));
        self.saved = self.saved.max(u64::try_from(saved).unwrap_or(u64::MAX));
    }
}

impl SpinSavings {
    /// Adds a submitted job with its predicted refusals.
    pub(crate) fn predict(&self, refusals: u64) {
        let mut counts = self.counts.lock();
        counts.submitted += 1;
        counts.predicted = counts.predicted.saturating_add(refusals);
    }

    /// Counts a throttle or a deferral.
    pub(crate) fn count_refusal(&self) {
        self.counts.lock().refused += 1;
    }

    /// Counts a job that ended.
    pub(crate) fn count_end(&self) {
        let mut counts = self.counts.lock();
        counts.ended += 1;
        counts.update();
    }

    /// Counts jobs that other machines ended: no more than these are open.
    pub(crate) fn count_open(&self, open: u64) {
        let mut counts = self.counts.lock();
        counts.ended = counts.ended.max(counts.submitted.saturating_sub(open));
        counts.update();
    }

    /// Returns the number of avoided refusals.
    pub(crate) fn saved(&self) -> u64 {
        self.counts.lock().saved
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Three refusals are predicted for each of four jobs, and five happen.
    #[test]
    fn a_prediction_counts_with_the_end_of_its_jobs() {
        let spins = SpinSavings::default();
        (0..4).for_each(|_| spins.predict(3));
        assert_eq!(spins.saved(), 0, "nothing ended");
        (0..5).for_each(|_| spins.count_refusal());
        let saved: Vec<_> = (0..4)
            .map(|_| {
                spins.count_end();
                spins.saved()
            })
            .collect();
        assert_eq!(saved, [0, 1, 4, 7]);
    }

    #[test]
    fn jobs_that_other_machines_ended_count() {
        let spins = SpinSavings::default();
        (0..4).for_each(|_| spins.predict(3));
        spins.count_open(1);
        assert_eq!(spins.saved(), 9);
        spins.count_open(3);
        assert_eq!(spins.saved(), 9, "a counter never falls");
    }
}
