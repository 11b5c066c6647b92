//! Rows of the database, converted into the state's types.

use outflow_core::{Cost, Rate, Weight};
use rusqlite::{Connection, Row};

use super::int_codec::{class_from_number, from_millis, from_nanos, to_u32, to_u64};
use crate::action::{ActionSpec, JobCounts};
use crate::embedded::state::action::{ActionEnd, ActionState};
use crate::embedded::state::job_entry::{AttemptHistory, JobEntry, JobPosition};
use crate::embedded::state::lane::LaneTable;
use crate::embedded::state::tenant::TenantState;
use crate::name::Name;
use crate::tenant::TenantRule;

/// Reads a number of a job. A damaged row may hold any type; its checksum shows the damage.
fn number_at(row: &Row<'_>, column: usize) -> Option<i64> {
    row.get_ref(column).ok()?.as_i64().ok()
}

/// Reads an id of a job.
pub(crate) fn id_at(row: &Row<'_>, column: usize) -> Option<u32> {
    u32::try_from(number_at(row, column)?).ok()
}

/// Reads a text of a job.
pub(crate) fn text_at<'a>(row: &'a Row<'_>, column: usize) -> Option<&'a str> {
    str::from_utf8(row.get_ref(column).ok()?.as_bytes().ok()?).ok()
}

/// Reads a job without its payload, from the columns action, cost, deadline and retries.
pub(crate) fn entry_from_row(row: &Row<'_>, position: JobPosition, first: usize) -> JobEntry {
    JobEntry {
        position,
        action: id_at(row, first),
        cost: Cost::new(number_at(row, first + 1).map_or(0, to_u64)),
        deadline: number_at(row, first + 2).map(from_millis),
        max_retries: id_at(row, first + 3).unwrap_or(0),
        history: AttemptHistory::default(),
        body: None,
    }
}

/// Reads a job without its payload, if its queue is known.
pub(crate) fn entry_in_queue(row: &Row<'_>, lanes: &LaneTable) -> Option<JobEntry> {
    let position = lanes.position(id_at(row, 1)?)?;
    Some(entry_from_row(row, position, 2))
}

/// Reads all rows of a query.
pub(crate) fn rows<T>(
    connection: &Connection,
    sql: &str,
    read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
) -> rusqlite::Result<Vec<T>> {
    let mut statement = connection.prepare_cached(sql)?;
    statement.query_map([], read)?.collect()
}

/// Reads a name.
pub(crate) fn name_from_row(row: &Row<'_>, column: usize) -> rusqlite::Result<Name> {
    let text: String = row.get(column)?;
    Name::new(&text).map_err(|error| {
        let kind = rusqlite::types::Type::Text;
        rusqlite::Error::FromSqlConversionFailure(column, kind, Box::new(error))
    })
}

pub(crate) fn counts_from_row(row: &Row<'_>, first: usize) -> rusqlite::Result<JobCounts> {
    Ok(JobCounts {
        done: to_u64(row.get(first)?),
        dead: to_u64(row.get(first + 1)?),
        failed: to_u64(row.get(first + 2)?),
        cancelled: to_u64(row.get(first + 3)?),
        throttles: to_u64(row.get(first + 4)?),
        busy: from_nanos(row.get(first + 5)?),
        ..JobCounts::default()
    })
}

pub(crate) fn tenant_from_row(row: &Row<'_>) -> rusqlite::Result<(u32, TenantState)> {
    let mut tenant = TenantState::new(name_from_row(row, 1)?, TenantRule::default());
    tenant.paused = row.get(2)?;
    tenant.has_own_rule = row.get(3)?;
    if tenant.has_own_rule {
        tenant.rule = rule_from_row(row)?;
    }
    tenant.counts = counts_from_row(row, 9)?;
    tenant.last_backoff = from_nanos(row.get(15)?);
    tenant.speed = to_u64(row.get(16)?);
    tenant.last_update = row.get::<_, Option<i64>>(17)?.map(from_millis);
    Ok((row.get(0)?, tenant))
}

fn rule_from_row(row: &Row<'_>) -> rusqlite::Result<TenantRule> {
    let rate: (Option<i64>, Option<i64>) = (row.get(6)?, row.get(7)?);
    let rate = match rate {
        (Some(quantity), Some(per)) => Rate::new(to_u64(quantity), from_nanos(per)).ok(),
        _ => None,
    };
    Ok(TenantRule {
        weight: Weight::new(row.get(4)?).unwrap_or(Weight::ONE),
        priority: class_from_number(row.get(5)?),
        rate,
        in_flight: row.get(8)?,
    })
}

pub(crate) fn action_from_row(row: &Row<'_>) -> rusqlite::Result<(u32, ActionState, JobCounts)> {
    let spec = ActionSpec {
        id: name_from_row(row, 1)?,
        timeout: from_nanos(row.get(2)?),
        keep: from_nanos(row.get(3)?),
        note: row.get(4)?,
    };
    let state = ActionState {
        spec,
        opened: from_millis(row.get(5)?),
        started: row.get::<_, Option<i64>>(6)?.map(from_millis),
        ended: row.get::<_, Option<i64>>(7)?.map(from_millis),
        closed: row.get(8)?,
        notified: row.get(9)?,
        end: ActionEnd::from_number(row.get(10)?),
        paused: row.get(11)?,
    };
    let counts = JobCounts {
        queued: to_u64(row.get(12)?),
        ..counts_from_row(row, 13)?
    };
    Ok((row.get(0)?, state, counts))
}

pub(crate) fn queue_from_row(row: &Row<'_>) -> rusqlite::Result<(JobPosition, u64)> {
    let position = JobPosition {
        queue: to_u32(row.get(0)?),
        lane: row.get(1)?,
        tenant: row.get(2)?,
        class: class_from_number(row.get(3)?),
    };
    Ok((position, to_u64(row.get(4)?)))
}
