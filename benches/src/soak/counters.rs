//! The program's own counters, and whether they agree with what was sent and what arrived.

use std::io;

use outflow_mock::Totals;

use super::admin;
use super::seen::Seen;
use crate::measure::approx;

/// A page of metrics.
#[derive(Debug)]
pub(super) struct Page {
    text: String,
}

impl Page {
    /// As it is now.
    ///
    /// # Errors
    /// If the program does not give it.
    pub(super) async fn read(admin: &str) -> io::Result<Self> {
        let bytes = admin::page(&format!("{admin}/metrics")).await;
        let bytes = bytes.map_err(io::Error::other)?;
        Ok(Self {
            text: String::from_utf8_lossy(&bytes).into_owned(),
        })
    }

    /// Calls that wait or are in flight.
    pub(super) fn under_way(&self) -> f64 {
        self.sum("outflow_waiting", "") + self.sum("outflow_in_flight", "")
    }

    /// Calls that were made of the program or that it knows the end of, and not both. Of those whose
    /// caller hung up some were never read, and nobody can tell which.
    pub(super) fn calls_astray(&self, seen: &Seen) -> f64 {
        let ended = self.sum("external_request_duration_seconds_count", UP);
        let abandoned = self.sum("outflow_abandoned_total", UP);
        let (known, sure) = (ended + abandoned, approx(seen.governed()));
        let most = sure + approx(seen.doubtful());
        (sure - known).max(known - most).max(0.0)
    }

    /// Attempts that the program or the API knows of and the other does not. Of those that were given up
    /// some never reached the API, and nobody can tell which.
    pub(super) fn attempts_astray(&self, totals: &Totals) -> f64 {
        let made = self.sum("requests_total", UP);
        let given_up = self.sum("requests_total", "api=\"up\",code=\"cancelled\"");
        let arrived = approx(totals.seen);
        (arrived - made).max(made - given_up - arrived).max(0.0)
    }

    /// All series of this name whose labels contain this.
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

    fn page() -> Page {
        let text = "# TYPE requests counter\n\
                    requests_total{api=\"up\",code=\"200\"} 7\n\
                    requests_total{api=\"up\",code=\"cancelled\"} 2\n\
                    requests_total{api=\"dead\",code=\"none\"} 5\n\
                    external_requests_total{api=\"up\"} 100\n\
                    outflow_waiting{api=\"up\"} 1\noutflow_in_flight{api=\"dead\"} 2\n";
        Page {
            text: text.to_owned(),
        }
    }

    #[test]
    fn a_sum_is_over_the_series_of_one_name_with_these_labels() {
        assert!((page().sum("requests_total", "") - 14.0).abs() < f64::EPSILON);
        assert!((page().sum("requests_total", UP) - 9.0).abs() < f64::EPSILON);
        assert!((page().under_way() - 3.0).abs() < f64::EPSILON);
    }

    // Nine were made, two of them given up: the API saw seven to nine.
    #[test]
    fn only_what_was_given_up_may_be_unknown_to_the_api() {
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
