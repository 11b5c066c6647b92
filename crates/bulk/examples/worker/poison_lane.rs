//! Tasks of one lane, of which the middle one kills the whole process whenever it runs.

use std::error::Error;
use std::time::Duration;

use bytes::Bytes;
use outflow_bulk::{Engine, EngineBuilder, HandlerTask, JobSpec};
use outflow_store::{JobStore, Name};

use super::{POISON, submission};

/// Registers their handler. Each task takes a moment, so that the process dies with several in flight.
pub(crate) fn with_handlers<S: JobStore>(builder: EngineBuilder<S>) -> EngineBuilder<S> {
    builder.handler("poison_lane", |task: HandlerTask| async move {
        tokio::time::sleep(Duration::from_millis(5)).await;
        if task.id.as_str() == POISON {
            std::process::abort();
        }
        Ok(Bytes::new())
    })
}

/// Submits all at once: this many, and the poison task in the middle.
pub(crate) async fn submit_jobs<S: JobStore>(engine: &Engine<S>, count: usize) -> Result<(), Box<dyn Error>> {
    let mut jobs = (0..count)
        .map(|number| job_spec(&format!("task-{number}")))
        .collect::<Result<Vec<_>, _>>()?;
    jobs.insert(count / 2, job_spec(POISON)?);
    engine.submit(submission(jobs)?).await?;
    Ok(())
}

fn job_spec(id: &str) -> Result<JobSpec, Box<dyn Error>> {
    let tenant: Name = "t0".parse()?;
    let mut job = JobSpec::task(tenant, "poison_lane", Bytes::new());
    job.id = Some(id.parse()?);
    Ok(job)
}
