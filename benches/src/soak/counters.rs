//! Compares the program's own counters with the sent calls and with the arrivals.

use std::io;

use outflow_mock::Totals;

use super::admin;
use super::call_counts::CallCounts;
use crate::measure::approx;

/// A page of metrics.
#[derive(Debug)]
pub(super) struct MetricsPage {
    text: String,
}

impl MetricsPage {
    /// Reads the page.
    ///
    /// # Errors
    /// If the program does not return it.
    pub(super) async fn read(admin: &str) -> io::Result<Self> {
        let bytes = admin::page(&format!("{admin}/metrics")).await;
        let bytes = bytes.map_err(io::Error::other)?;
        Ok(Self {
            text: String::from_utf8_lossy(&bytes).into_owned(),
        })
    }

    /// Returns the calls that wait or are in flight.
    pub(super) fn in_flight(&self) -> f64 {
        self.sum("outflow_waiting", "") + self.sum("outflow_in_flight", "")
    }

    /// Returns the calls that only the callers or only the program counted. If a caller hung up, the program
    /// may or may not have read its call.
    pub(super) fn calls_astray(&self, seen: &CallCounts) -> f64 {
        let ended = self.sum("external_request_duration_seconds_count", UP);
        let abandoned = self.sum("outflow_abandoned_total", UP);
        let (known, sure) = (ended + abandoned, approx(seen.governed()));
        let most = sure + approx(seen.doubtful());
        (sure - known).max(known - most).max(0.0)
    }

    /// Returns the attempts that only the program or only the API counted. An abandoned attempt may or may not
    /// have reached the API.
    pub(super) fn attempts_astray(&self, totals: &Totals) -> f64 {
        let made = self.sum("requests_total", UP);
        let given_up = self.sum("requests_total", "api=\"up\",code=\"cancelled\"");
        let arrived = approx(totals.seen);
        (arrived - made).max(made - given_up - arrived).max(0.0)
    }

    /// Sums all series of this name whose labels contain this.
    fn sum(&self, name: &str, labels: &str) -> f64 {
        self.text
            .lines()
            .filter_map(|line| line.strip_prefix(name)?.strip_prefix('{'))
            .filter_map(|rest| rest.rsplit_once("} "))
            .filter(|(found, _)| found.contains(labels))
            .filter_map(|(_, value)| value.trim().parse::<f64>().ok())
            .sum()
    }
}

const UP: &str = "api=\"up\"";

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn page() -> MetricsPage {
        let text = "# TYPE requests counter\n\
                    requests_total{api=\"up\",code=\"200\"} 7\n\
                    requests_total{api=\"up\",code=\"cancelled\"} 2\n\
                    requests_total{api=\"dead\",code=\"none\"} 5\n\
                    external_requests_total{api=\"up\"} 100\n\
                    outflow_waiting{api=\"up\"} 1\noutflow_in_flight{api=\"dead\"} 2\n";
        MetricsPage { text: text.to_owned() }
    }

    #[test]
    fn a_sum_covers_the_series_of_one_name_with_these_labels() {
        assert!((page().sum("requests_total", "") - 14.0).abs() < f64::EPSILON);
        assert!((page().sum("requests_total", UP) - 9.0).abs() < f64::EPSILON);
        assert!((page().in_flight() - 3.0).abs() < f64::EPSILON);
    }

    // Nine were made, two of them abandoned: the API saw seven to nine.
    #[test]
    fn only_abandoned_attempts_may_be_unknown_to_the_api() {
        for (seen, astray) in [(6, 1.0), (7, 0.0), (9, 0.0), (11, 2.0)] {
            let totals = Totals {
                seen,
                by_status: BTreeMap::new(),
                ..Totals::default()
            };
            let found = page().attempts_astray(&totals);
            assert!((found - astray).abs() < f64::EPSILON, "{seen}: {found}");
        }
    }
}
