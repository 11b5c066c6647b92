//! Path of a call: route, cache, acquire, send, classify, settle, then retry or return.
//!
//! Every call passes these steps in order; a retry repeats them with a permit of its own. Nothing
//! here decides about limits or health: it reports facts to the upstream and follows its verdict.
//! The response's type stays outside: a body that cannot be decoded was still delivered.

mod attempt;
mod cache_stage;
mod prepared;
mod redirect;
mod report;
mod retry;
mod stream_liveness;

use std::time::Duration;

use outflow_core::Nanos;

use self::attempt::FinishedAttempt;
use self::cache_stage::Lead;
pub(crate) use self::cache_stage::explain;
use self::prepared::PreparedRequest;
use self::retry::RetryPlan;
pub(crate) use self::stream_liveness::StreamLiveness;
use crate::client::{ApiClient, CallSpec, Response, ResponseShape};
use crate::error::{Error, ErrorKind, RedirectError};
use crate::event::EventKind;
use crate::http::BytesSent;
use crate::refusal::Refusal;

/// Makes a call.
pub(crate) async fn make(client: &ApiClient, spec: Box<CallSpec>, shape: ResponseShape) -> Result<Response, Error> {
    let started = client.upstream.now();
    let request = PreparedRequest::new(client, spec, started)?;
    let mut call = CallState {
        client,
        request,
        shape,
        started,
        stats: CallStats::default(),
        lead: None,
        has_substitute: false,
        is_reported: false,
    };
    let result = cache_stage::respond(&mut call).await;
    let result = result.map_err(|error| error.with_attempts(call.stats.attempts));
    report::emit_finished(&call, &result);
    call.is_reported = true;
    result
}

/// Call in progress. Dropped before its end is reported, it reports that the caller has left.
struct CallState<'a> {
    client: &'a ApiClient,
    request: PreparedRequest,
    shape: ResponseShape,
    started: Nanos,
    stats: CallStats,
    /// Duty to share the result with equal calls.
    lead: Option<Lead>,
    /// True if a stored response may serve the call while the API sleeps.
    has_substitute: bool,
    is_reported: bool,
}

impl Drop for CallState<'_> {
    fn drop(&mut self) {
        if !self.is_reported {
            report::emit_abandoned(self);
        }
    }
}

/// Counters of a call.
#[derive(Clone, Copy, Debug, Default)]
struct CallStats {
    attempts: u32,
    retries: u32,
    /// Retries because a limit of ours was too high.
    returns: u32,
    /// True if the next attempt keeps the queue position of the last one.
    keeps_position: bool,
    hops: u8,
    sent: Nanos,
    waited: Duration,
    /// Delays before retries.
    delayed: Duration,
}

impl CallStats {
    /// Returns the time that the call spent without an attempt. `max_wait` bounds it.
    const fn paused(&self) -> Duration {
        self.waited.saturating_add(self.delayed)
    }
}

impl CallState<'_> {
    /// Gets a response from the server with as many attempts as allowed; the first starts at `now`.
    async fn fetch(&mut self, mut now: Nanos) -> Result<Response, Error> {
        let mut previous: Option<Box<Result<Response, Error>>> = None;
        let mut earned = false;
        loop {
            let attempt = match self.attempt(now).await {
                Ok(attempt) => attempt,
                Err(refusal) => return refused(previous, refusal),
            };
            if !std::mem::replace(&mut earned, true) {
                // After the permit: a refused call loads no server and must not pay for retries of
                // others.
                self.client.retries.lock().deposit(now);
            }
            if self.follow(&attempt)? {
                previous = None;
            } else {
                if attempt.sent != BytesSent::Something {
                    self.request.spec.payload.take_back();
                }
                let Some(plan) = self.plan_retry(&attempt) else {
                    let verdict = attempt.verdict;
                    return attempt.result.map_err(|error| error.with_verdict(verdict));
                };
                self.emit_retry(&attempt, plan.delay());
                self.count(plan);
                previous = Some(Box::new(attempt.result));
                if !plan.delay().is_zero() {
                    tokio::time::sleep(plan.delay()).await;
                }
            }
            if self.yields_to_cache()
                && let Some(result) = previous
            {
                return *result;
            }
            now = self.client.upstream.now();
        }
    }

    /// Returns true if the API sleeps and a stored response may serve the call: it then neither waits nor probes.
    fn yields_to_cache(&self) -> bool {
        self.has_substitute && self.client.upstream.is_asleep(self.request.target)
    }

    /// Turns to the target of a redirect. Returns false if there is none to follow.
    fn follow(&mut self, attempt: &FinishedAttempt) -> Result<bool, Error> {
        let Ok(response) = &attempt.result else {
            return Ok(false);
        };
        let request = &self.request;
        let Some(to) = redirect::next(&request.uri, &request.spec.method, response.status, &response.headers) else {
            return Ok(false);
        };
        if request.redirects == 0 || !request.spec.payload.is_sendable() {
            return Ok(false);
        }
        let to = request.resolve_redirect(to.map_err(redirect_failed)?, self.client);
        if request.uri == to || request.visited.contains(&to) {
            return Err(redirect_failed(RedirectError::Loop));
        }
        if self.stats.hops >= request.redirects {
            return Err(redirect_failed(RedirectError::TooMany));
        }
        self.stats.hops = self.stats.hops.saturating_add(1);
        self.request.redirect_to(to, self.client);
        Ok(true)
    }

    /// Returns the instant from which the wait for a permit requested now counts. The first counts from
    /// the start of the call, also after following another call: a failed leader gives no fresh wait.
    /// A kept queue position is the first one, and another retry has what the call has not yet waited: an
    /// API that throttles or fails for ever ends the call.
    fn waits_since(&self, now: Nanos) -> Nanos {
        if self.stats.attempts == 0 || self.stats.keeps_position {
            return self.started;
        }
        now.saturating_sub(self.stats.paused())
    }

    fn count(&mut self, plan: RetryPlan) {
        let stats = &mut self.stats;
        stats.keeps_position = matches!(plan, RetryPlan::KeepPosition(_));
        stats.delayed = stats.delayed.saturating_add(plan.delay());
        if stats.keeps_position {
            stats.returns = stats.returns.saturating_add(1);
        } else {
            stats.retries = stats.retries.saturating_add(1);
        }
    }

    fn emit_retry(&self, attempt: &FinishedAttempt, delay: Duration) {
        let Some(reason) = attempt.reason() else {
            return;
        };
        self.emit(|| EventKind::Retrying {
            attempt: self.stats.attempts,
            delay,
            retry_after: attempt.verdict.retry_after,
            reason,
        });
    }

    fn emit(&self, what: impl FnOnce() -> EventKind) {
        let upstream = &self.client.upstream;
        upstream.events().emit(|| crate::event::Event {
            api: upstream.name().clone(),
            at: upstream.now(),
            trace: self.request.trace,
            what: what(),
        });
    }
}

/// Returns the refusal of a first attempt; for a retry, the last response says more.
fn refused(previous: Option<Box<Result<Response, Error>>>, refusal: Refusal) -> Result<Response, Error> {
    match previous {
        Some(result) => *result,
        None => Err(Error::new(ErrorKind::Refused(refusal))),
    }
}

fn redirect_failed(error: RedirectError) -> Error {
    Error::new(ErrorKind::Redirect(error))
}
