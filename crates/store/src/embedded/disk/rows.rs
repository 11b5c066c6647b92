//! Rows as they are read, made into what memory keeps.

use std::collections::HashMap;

use outflow_core::{Cost, Priority, Rate, Weight};
use rusqlite::{Connection, Row};

use super::int_codec::{class_of, counted, few, span, wall};
use crate::action::{ActionSpec, JobCounts};
use crate::embedded::state::action::{ActionEnd, ActionState};
use crate::embedded::state::job_entry::{AttemptHistory, JobEntry, JobPosition};
use crate::embedded::state::tenant::TenantState;
use crate::name::Name;
use crate::tenant::TenantRule;

/// A number of a job. Of a job that was damaged anything can be there: it is for its sum to say.
pub(crate) fn number_at(row: &Row<'_>, column: usize) -> Option<i64> {
    row.get_ref(column).ok()?.as_i64().ok()
}

/// A small one.
pub(crate) fn id_at(row: &Row<'_>, column: usize) -> Option<u32> {
    u32::try_from(number_at(row, column)?).ok()
}

/// A text of a job, in the same way.
pub(crate) fn text_at<'a>(row: &'a Row<'_>, column: usize) -> Option<&'a str> {
    str::from_utf8(row.get_ref(column).ok()?.as_bytes().ok()?).ok()
}

/// A job without its payload, of a row that holds its action, cost, deadline and retries one after the
/// other.
pub(crate) fn entry_from(row: &Row<'_>, place: JobPosition, first: usize) -> JobEntry {
    JobEntry {
        place,
        action: id_at(row, first),
        cost: Cost::new(number_at(row, first + 1).map_or(0, counted)),
        deadline: number_at(row, first + 2).map(wall),
        max_retries: id_at(row, first + 3).unwrap_or(0),
        tries: AttemptHistory::default(),
        body: None,
    }
}

/// A job that is read without its payload, if its line is known.
pub(crate) fn entry_at(row: &Row<'_>, places: &HashMap<u32, JobPosition>) -> Option<JobEntry> {
    let place = places.get(&id_at(row, 1)?)?;
    Some(entry_from(row, *place, 2))
}

/// All rows of a question, read.
pub(crate) fn rows<T>(
    connection: &Connection,
    sql: &str,
    read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
) -> rusqlite::Result<Vec<T>> {
    let mut statement = connection.prepare_cached(sql)?;
    statement.query_map([], read)?.collect()
}

/// A name that was written here.
pub(crate) fn name_of(row: &Row<'_>, column: usize) -> rusqlite::Result<Name> {
    let text: String = row.get(column)?;
    Name::new(&text).map_err(|error| {
        let kind = rusqlite::types::Type::Text;
        rusqlite::Error::FromSqlConversionFailure(column, kind, Box::new(error))
    })
}

pub(crate) fn tally_of(row: &Row<'_>, first: usize) -> rusqlite::Result<JobCounts> {
    Ok(JobCounts {
        done: counted(row.get(first)?),
        dead: counted(row.get(first + 1)?),
        failed: counted(row.get(first + 2)?),
        cancelled: counted(row.get(first + 3)?),
        throttles: counted(row.get(first + 4)?),
        busy: span(row.get(first + 5)?),
        ..JobCounts::default()
    })
}

pub(crate) fn tenant_of(row: &Row<'_>) -> rusqlite::Result<(u32, TenantState)> {
    let mut tenant = TenantState::new(name_of(row, 1)?, TenantRule::default());
    tenant.paused = row.get(2)?;
    tenant.ruled = row.get(3)?;
    if tenant.ruled {
        tenant.rule = rule_of(row)?;
    }
    tenant.tally = tally_of(row, 9)?;
    tenant.last_backoff = span(row.get(15)?);
    tenant.speed = counted(row.get(16)?);
    tenant.last_update = row.get::<_, Option<i64>>(17)?.map(wall);
    Ok((row.get(0)?, tenant))
}

fn rule_of(row: &Row<'_>) -> rusqlite::Result<TenantRule> {
    let rate: (Option<i64>, Option<i64>) = (row.get(6)?, row.get(7)?);
    let rate = match rate {
        (Some(quantity), Some(per)) => Rate::new(counted(quantity), span(per)).ok(),
        _ => None,
    };
    Ok(TenantRule {
        weight: Weight::new(row.get(4)?).unwrap_or(Weight::ONE),
        priority: class_of(row.get(5)?),
        rate,
        in_flight: row.get(8)?,
    })
}

pub(crate) fn action_of(row: &Row<'_>) -> rusqlite::Result<(u32, ActionState, JobCounts)> {
    let spec = ActionSpec {
        id: name_of(row, 1)?,
        timeout: span(row.get(2)?),
        keep: span(row.get(3)?),
        note: row.get(4)?,
    };
    let state = ActionState {
        spec,
        opened: wall(row.get(5)?),
        started: row.get::<_, Option<i64>>(6)?.map(wall),
        ended: row.get::<_, Option<i64>>(7)?.map(wall),
        closed: row.get(8)?,
        told: row.get(9)?,
        fate: ActionEnd::from_number(row.get(10)?),
        paused: row.get(11)?,
    };
    let tally = JobCounts {
        queued: counted(row.get(12)?),
        ..tally_of(row, 13)?
    };
    Ok((row.get(0)?, state, tally))
}

pub(crate) fn place_of(row: &Row<'_>) -> rusqlite::Result<(JobPosition, u64)> {
    let class: Priority = class_of(row.get(3)?);
    let place = JobPosition {
        line: few(row.get(0)?),
        lane: row.get(1)?,
        tenant: row.get(2)?,
        class,
    };
    Ok((place, counted(row.get(4)?)))
}
