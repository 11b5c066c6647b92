//! The attempt of a job that is an HTTP call.

use outflow::{AttemptResult, Error, Outflow, Permit, Response, Verdict};
use outflow_core::OutcomeClass;
use outflow_store::JobEnd;

use super::call_arrival::CallArrival;
use super::{AttemptEnd, JobAttempt, failed, failed_attempt};
use crate::scheduler::start_permission::HeldPermits;
use crate::scheduler::strategy::AttemptFailure;
use crate::submit::job_payload::HttpCall;

impl<S> JobAttempt<'_, S> {
    /// Sends the call and returns its end.
    pub(super) async fn send(&mut self, client: &Outflow, mut call: HttpCall, mut permits: HeldPermits) -> AttemptEnd {
        let upstream = client.upstream(&call.api);
        call.set_idempotency_key(self.job.id.as_str());
        let mut request = client
            .request(call.method, &call.api, &call.path)
            .headers(call.headers)
            .body(call.body)
            .header("outflow-attempt", self.job.attempt.to_string())
            .priority(self.job.priority)
            .cost(self.job.cost)
            .timeout(call.timeout.unwrap_or(self.settings.timeout))
            .no_retry();
        // A job's own timeout wins over the API's timeout of all calls.
        if let Some(own) = call.timeout {
            request = request.attempt_timeout(own);
        }
        if let Some(mut permit) = permits.api.take() {
            if self.expects_failure {
                permit.expect_failure();
            }
            request = request.with_permit(permit);
        }
        if let Some(tenant) = &mut permits.tenant {
            tenant.sending();
        }
        let began = self.context.clock.now();
        let sent = request.send().await;
        let limit = self.settings.tenant_limit(&self.job.tenant);
        let span = (began, self.context.clock.now());
        self.arrival = CallArrival::of_call(upstream.as_ref(), limit.as_ref(), span, &sent);
        settle_tenant(permits.tenant, &sent);
        match sent {
            Ok(response) => self.on_response(response).await,
            Err(error) => Self::on_error(&error),
        }
    }

    async fn on_response(&self, response: Response) -> AttemptEnd {
        let (status, verdict) = (response.status().as_u16(), response.verdict());
        if let Some(end) = verdict.and_then(|verdict| self.on_throttle(&verdict)) {
            return AttemptEnd::Throttled(end);
        }
        let message = format!("the API answered {status}");
        if verdict.is_some_and(|verdict| verdict.is_worth_a_retry()) {
            let retry_after = response.retry_after();
            // The status is stored even if the body broke off.
            let body = response.bytes().await.unwrap_or_default();
            return AttemptEnd::Failed(AttemptFailure {
                message,
                retry_after,
                result: self.stored_result(status, body),
            });
        }
        let body = match response.bytes().await {
            Ok(body) => body,
            Err(error) => return failed_attempt(error.to_string()),
        };
        let result = self.stored_result(status, body);
        if status >= 400 {
            return AttemptEnd::Served(JobEnd::Failed { message, result });
        }
        AttemptEnd::Served(self.done(result))
    }

    /// Returns the end of a throttled attempt: the job returns to its queue and uses no retry.
    fn on_throttle(&self, verdict: &Verdict) -> Option<JobEnd> {
        let throttled = matches!(verdict.effect, OutcomeClass::Throttled | OutcomeClass::Banned);
        let strategy = self.settings.scheduler.strategy();
        throttled.then(|| strategy.throttle(&self.settings, self.job, verdict.retry_after))
    }

    fn on_error(error: &Error) -> AttemptEnd {
        // The API left the configuration after the claim: the job waits in its queue until it is back.
        if error.is_refused() || error.is_unknown_api() {
            return AttemptEnd::Other(JobEnd::Returned);
        }
        let verdict = error.verdict();
        let worth = verdict.is_some_and(|verdict| verdict.is_worth_a_retry());
        if worth || error.is_timeout() || error.is_connect() {
            return AttemptEnd::Failed(AttemptFailure {
                message: error.to_string(),
                retry_after: error.retry_after(),
                result: None,
            });
        }
        AttemptEnd::Other(failed(error.to_string()))
    }
}

/// Reports the end of the call to the tenant's limiter, and nothing else: failures belong to the API.
fn settle_tenant(permit: Option<Permit>, sent: &Result<Response, Error>) {
    let Some(permit) = permit else { return };
    match sent {
        Ok(_) => drop(permit.settle(AttemptResult::status(200))),
        Err(error) if error.attempts() == 0 => permit.refund(),
        Err(_) => drop(permit),
    }
}
