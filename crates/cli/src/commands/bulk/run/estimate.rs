//! Estimate of a dry run, as text and as JSON.

use std::fmt::Write as _;
use std::time::Duration;

use outflow_bulk::{InFlightBound, TenantBounds};
use serde_json::{Value, json};

use crate::terminal::{format_span, millis};

/// Estimated duration of a run that has not started.
pub(super) struct RunEstimate {
    /// Least time by limits.
    pub(super) bounds: TenantBounds,
    /// Time that a run takes while limits bind, to the end of the last call.
    pub(super) expected: Duration,
    /// Time by calls in flight.
    pub(super) in_flight: Option<InFlightBound>,
    /// Assumed time of a call.
    pub(super) latency: Duration,
}

impl RunEstimate {
    /// Returns the bound on calls in flight, if it needs longer than the limits.
    fn binding(&self) -> Option<&InFlightBound> {
        self.in_flight.as_ref().filter(|bound| bound.span > self.last_start())
    }

    /// Returns the start of the last call while limits bind.
    fn last_start(&self) -> Duration {
        self.expected.saturating_sub(self.latency)
    }

    /// Returns the estimated duration.
    fn span(&self) -> Duration {
        let bound = self.binding().map(|bound| bound.span.saturating_add(self.latency));
        bound.unwrap_or(self.expected)
    }

    /// Formats the estimate as text.
    pub(super) fn to_text(&self) -> String {
        let mut text = self.headline();
        let bounds = &self.bounds;
        for (name, part) in bounds.tenants.iter().take(MAX_TENANTS) {
            let allowed = part.allowed.as_ref();
            let allowed = allowed.map_or("no limit".to_owned(), ToString::to_string);
            // Writing to a string cannot fail.
            let _infallible = writeln!(
                text,
                "  {name}: {} jobs, {} if alone ({allowed})",
                part.jobs,
                format_span(part.alone)
            );
        }
        let more = bounds.tenants.len().saturating_sub(MAX_TENANTS);
        if more > 0 {
            let _infallible = writeln!(text, "  and {more} more tenants");
        }
        text.push_str("nothing was sent\n");
        text
    }

    /// Returns the duration and its cause.
    fn headline(&self) -> String {
        let TenantBounds { jobs, because, .. } = &self.bounds;
        let span = format_span(self.span());
        let Some(bound) = self.binding() else {
            return format!("{jobs} jobs take about {span}, by {because}\n");
        };
        format!(
            "{jobs} jobs take about {span}, by {}, if a call takes {:?} (`--latency`)\n\
             the limits alone need {}, by {because}: above {:?} a call `{}` binds, raise it\n",
            bound.because,
            self.latency,
            format_span(self.expected),
            round(bound.binds_above(self.last_start())),
            bound.setting,
        )
    }

    /// Returns the estimate as JSON.
    pub(super) fn to_json(&self) -> Value {
        let mut document = self.bounds.json();
        let binding = self.binding();
        let in_flight = binding.map(|bound| {
            json!({
                "because": bound.because,
                "setting": bound.setting,
                "latency_ms": millis(self.latency),
                "binds_above_ms": millis(bound.binds_above(self.last_start())),
            })
        });
        if let Some(fields) = document.as_object_mut() {
            fields.insert("estimate_ms".to_owned(), millis(self.span()).into());
            fields.insert("in_flight".to_owned(), in_flight.into());
        }
        document
    }
}

/// Cuts a time to whole milliseconds.
fn round(span: Duration) -> Duration {
    Duration::from_millis(millis(span))
}

/// Fits on a screen.
const MAX_TENANTS: usize = 20;
