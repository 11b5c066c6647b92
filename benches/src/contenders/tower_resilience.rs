//! tower-resilience: its cores are private, so it is measured as a service around an empty inner service,
//! polled once. Each call boxes a future, which is part of its cost.

use std::future::{Future, Ready, ready};
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tower::{Layer, Service};
use tower_resilience::bulkhead::BulkheadLayer;
use tower_resilience::circuitbreaker::{CircuitBreaker, CircuitBreakerLayer, DefaultClassifier};
use tower_resilience::ratelimiter::{RateLimiter, RateLimiterLayer, WindowType};

/// Name of its exact log in the tables.
pub(crate) const LOG: &str = "tower-resilience log (service)";
/// Name of its breaker in the tables.
pub(crate) const BREAKER: &str = "tower-resilience (service)";

/// Its exact log around an empty service.
pub(crate) type Log = RateLimiter<Idle>;

/// Returns its exact log without waiting; `None` if it rejects the configuration.
pub(crate) fn log(limit: u32, window: Duration) -> Option<Log> {
    patient_log(limit, window, Duration::ZERO)
}

/// Returns its exact log that lets callers wait.
pub(crate) fn patient_log(limit: u32, window: Duration, reaction: Duration) -> Option<Log> {
    let layer = RateLimiterLayer::builder()
        .limit_for_period(usize::try_from(limit).unwrap_or(usize::MAX))
        .refresh_period(window)
        .timeout_duration(reaction)
        .window_type(WindowType::SlidingLog)
        .build();
    layer.ok().map(|layer| layer.layer(Idle { fails: false }))
}

/// Its breaker over the last 100 calls.
pub(crate) fn breaker<S>(inner: S) -> Option<CircuitBreaker<S, DefaultClassifier>> {
    let layer = CircuitBreakerLayer::builder()
        .failure_rate_threshold(0.5)
        .sliding_window_size(100)
        .minimum_number_of_calls(10)
        .wait_duration_in_open(Duration::from_hours(1))
        .build();
    layer.ok().map(|layer| layer.layer_fn(inner))
}

/// Builds bulkhead, breaker and exact log around a service that never fails.
pub(crate) fn stack(limit: u32, window: Duration, in_flight: u32) -> Option<impl Service<()>> {
    let bulkhead = BulkheadLayer::builder()
        .max_concurrent_calls(usize::try_from(in_flight).unwrap_or(usize::MAX))
        .build();
    let limited = log(limit, window)?;
    let breaker = breaker(limited)?;
    Some(bulkhead.ok()?.layer(breaker))
}

/// Makes one call, polled once; returns true if it succeeded. No call here has to wait.
pub(crate) fn call<S: Service<()>>(service: &mut S) -> bool {
    let mut context = Context::from_waker(Waker::noop());
    if !matches!(service.poll_ready(&mut context), Poll::Ready(Ok(()))) {
        return false;
    }
    let answer = pin!(service.call(()));
    matches!(answer.poll(&mut context), Poll::Ready(Ok(_)))
}

/// A service that responds at once.
#[derive(Clone, Copy)]
pub(crate) struct Idle {
    /// True if every call fails, to open a breaker.
    pub(crate) fails: bool,
}

impl Service<()> for Idle {
    type Response = ();
    type Error = Failed;
    type Future = Ready<Result<(), Failed>>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), Failed>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, (): ()) -> Self::Future {
        ready(if self.fails { Err(Failed) } else { Ok(()) })
    }
}

/// Error of a failing service.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Failed;
