//! Checks of submitted jobs.

use bytes::Bytes;
use outflow::Outflow;
use outflow::core::{Cost, Decision};
use outflow_store::{Name, NewJob};

use super::job_payload::HttpCall;
use super::lane::Lane;
use super::{JobPlacement, JobSpec, JobWork};
use crate::engine::EngineContext;
use crate::error::BulkError;
use crate::settings::EngineSettings;

/// Converts all jobs, or returns all errors.
pub(super) fn check_all<S>(context: &EngineContext<S>, specs: &[JobSpec]) -> Result<Vec<NewJob>, BulkError> {
    let (mut errors, mut more) = (Vec::new(), 0_usize);
    let mut jobs = Vec::with_capacity(specs.len());
    for (number, spec) in (1..).zip(specs) {
        match to_job(context, spec) {
            Ok(job) => jobs.push(job),
            Err(error) if errors.len() < MAX_ERRORS => errors.push(format!("job {number}: {error}")),
            Err(_) => more += 1,
        }
    }
    if errors.is_empty() {
        return Ok(jobs);
    }
    if more > 0 {
        errors.push(format!("and {more} more"));
    }
    Err(BulkError::invalid(errors.join("; ")))
}

/// Converts a job for the store.
pub(super) fn to_job<S>(context: &EngineContext<S>, spec: &JobSpec) -> Result<NewJob, BulkError> {
    let (lane, payload, cost) = match &spec.work {
        JobWork::Call(call) => {
            let placement = check_call(&context.client, call, spec.cost)?;
            (placement.lane, call.encode(), placement.cost)
        }
        JobWork::Task { handler, payload } => {
            let (lane, payload) = check_task(context, handler, payload)?;
            (lane, payload, spec.cost.unwrap_or(Cost::ONE))
        }
    };
    check_limits(spec, cost, &context.settings.load())?;
    let default = NewJob::new(spec.tenant.clone(), lane, payload);
    Ok(NewJob {
        id: spec.id.clone(),
        cost,
        priority: spec.priority,
        not_before: spec.not_before,
        deadline: spec.deadline,
        max_retries: spec.max_retries.unwrap_or(default.max_retries),
        ..default
    })
}

fn check_task<S>(context: &EngineContext<S>, handler: &str, payload: &Bytes) -> Result<(Name, Bytes), BulkError> {
    if !context.handlers.contains_key(handler) {
        return Err(BulkError::invalid(format!(
            "no handler is called {handler:?}: register it, or check its name"
        )));
    }
    Ok((Lane::name_for_handler(handler)?, payload.clone()))
}

/// Checks that times and the tenant's limit let the job start.
pub(super) fn check_limits(spec: &JobSpec, cost: Cost, settings: &EngineSettings) -> Result<(), BulkError> {
    if let (Some(begin), Some(end)) = (spec.not_before, spec.deadline)
        && begin > end
    {
        return Err(BulkError::invalid(
            "it is not to begin before an instant that is after its deadline: change one of them",
        ));
    }
    let rate = settings.rule(&spec.tenant).rate;
    match rate.filter(|rate| cost.units() > rate.quantity()) {
        Some(rate) => Err(BulkError::invalid(format!(
            "it costs {}, more than the {rate} of its tenant ever allow: split it, or lower its cost",
            cost.units()
        ))),
        None => Ok(()),
    }
}

/// Checks that a call is valid HTTP.
fn check_http(call: &HttpCall) -> Result<(), BulkError> {
    if call.method == http::Method::CONNECT {
        return Err(BulkError::invalid(
            "CONNECT opens a tunnel and is no call: use another method",
        ));
    }
    let key = call.idempotency_key.as_deref().unwrap_or_default();
    http::HeaderValue::from_str(key)
        .map(drop)
        .map_err(|_| BulkError::invalid("the idempotency key goes into a header: leave out line breaks"))
}

/// Checks a call against its API, and returns its lane and its cost.
pub(super) fn check_call(client: &Outflow, call: &HttpCall, cost: Option<Cost>) -> Result<JobPlacement, BulkError> {
    let Some((upstream, api)) = client.upstream(&call.api).zip(client.api(&call.api)) else {
        return Err(BulkError::invalid(format!(
            "no API is called {:?}: add it to the configuration, or check its name",
            call.api
        )));
    };
    if !api.methods.is_empty() && !api.methods.contains(&call.method) {
        return Err(BulkError::invalid(format!(
            "{} is not among the methods of {:?}: allow it, or use another",
            call.method, call.api
        )));
    }
    check_http(call)?;
    api.base_url
        .join(&call.path)
        .map_err(|invalid| BulkError::invalid(format!("path: {invalid}")))?;
    let path = call.path.split('?').next().unwrap_or_default();
    let target = upstream.route(&call.method, path);
    let cost = cost.unwrap_or(target.cost());
    if upstream.check(target.with_cost(cost)) == Decision::Never {
        return Err(BulkError::invalid(format!(
            "it costs {}, more than a limit of {:?} ever allows: split it, or lower its cost",
            cost.units(),
            call.api
        )));
    }
    let lane = Lane::name_for_call(&upstream, &call.method, path)?;
    Ok(JobPlacement { lane, cost })
}

/// Enough to see the errors of a file.
const MAX_ERRORS: usize = 20;
