//! Tasks of one lane, of which the one in the middle takes the whole process down whenever it is tried.

use std::error::Error;
use std::time::Duration;

use bytes::Bytes;
use outflow_bulk::{Engine, EngineBuilder, HandlerTask, JobSpec};
use outflow_store::{JobStore, Name};

use super::{POISON, submission};

/// Who does them: each is under way for a moment, so that the process dies over several.
pub(crate) fn staffed<S: JobStore>(builder: EngineBuilder<S>) -> EngineBuilder<S> {
    builder.handler("company", |task: HandlerTask| async move {
        tokio::time::sleep(Duration::from_millis(5)).await;
        if task.id.as_str() == POISON {
            std::process::abort();
        }
        Ok(Bytes::new())
    })
}

/// Hands them in, all at once: so many besides the one.
pub(crate) async fn hand_in<S: JobStore>(
    engine: &Engine<S>,
    count: usize,
) -> Result<(), Box<dyn Error>> {
    let mut orders = (0..count)
        .map(|number| order(&format!("task-{number}")))
        .collect::<Result<Vec<_>, _>>()?;
    orders.insert(count / 2, order(POISON)?);
    engine.submit(submission(orders)?).await?;
    Ok(())
}

fn order(id: &str) -> Result<JobSpec, Box<dyn Error>> {
    let tenant: Name = "t0".parse()?;
    let mut order = JobSpec::task(tenant, "company", Bytes::new());
    order.id = Some(id.parse()?);
    Ok(order)
}
