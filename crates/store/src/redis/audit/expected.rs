//! Stored counters, as the scripts updated them.

use std::collections::HashMap;

use bytes::{Buf, Bytes};
use redis::cmd;

use super::super::actions::actions;
use super::super::error_map::strange;
use super::super::reply::maybe_bytes;
use super::super::script_call::ScriptRunner;
use super::super::tenants::{active, books, lanes, tenants};
use crate::action::JobCounts;
use crate::contract::StoreResult;
use crate::name::Name;
use crate::tenant::PageRequest;

/// All stored counters.
pub(super) struct StoredCounts {
    pub(super) all: JobCounts,
    pub(super) active: u64,
    /// Waiting jobs by lane.
    pub(super) lanes: HashMap<Name, u64>,
    pub(super) tenants: HashMap<Name, JobCounts>,
    pub(super) actions: HashMap<Name, StoredAction>,
}

/// Stored counters of an action.
pub(super) struct StoredAction {
    pub(super) tally: JobCounts,
    /// Claims up to this number belong to an earlier action of the same name.
    pub(super) floor: u64,
}

impl StoredCounts {
    pub(super) async fn read(caller: &ScriptRunner) -> StoreResult<Self> {
        Ok(Self {
            all: books(caller).await?,
            active: active(caller).await?,
            lanes: lanes_as_counted(caller).await?,
            tenants: tenants_as_counted(caller).await?,
            actions: actions_as_counted(caller).await?,
        })
    }
}

async fn lanes_as_counted(caller: &ScriptRunner) -> StoreResult<HashMap<Name, u64>> {
    let mut counted = HashMap::new();
    for lane in lanes(caller).await? {
        let mut command = cmd("HGET");
        command.arg(caller.key(&format!("w:{lane}"))).arg("");
        let queued = waiting(maybe_bytes(caller.send(&command).await?)?)?;
        counted.insert(lane, queued);
    }
    Ok(counted)
}

/// Reads the second of a lane's numbers, which are doubles.
fn waiting(lane: Option<Bytes>) -> StoreResult<u64> {
    let Some(mut lane) = lane else {
        return Ok(0);
    };
    let _clock = lane.try_get_f64().map_err(|_| strange())?;
    let waiting = lane.try_get_f64().map_err(|_| strange())?;
    format!("{waiting:.0}").parse().map_err(|_| strange())
}

async fn tenants_as_counted(caller: &ScriptRunner) -> StoreResult<HashMap<Name, JobCounts>> {
    let mut counted = HashMap::new();
    let mut page = PageRequest::default();
    loop {
        let reports = tenants(caller, &page).await?;
        let Some(last) = reports.last() else {
            return Ok(counted);
        };
        page.after = Some(last.name.clone());
        let tallies = reports
            .into_iter()
            .map(|report| (report.name, report.tally));
        counted.extend(tallies);
    }
}

async fn actions_as_counted(caller: &ScriptRunner) -> StoreResult<HashMap<Name, StoredAction>> {
    let mut counted = HashMap::new();
    let mut page = PageRequest::default();
    loop {
        let reports = actions(caller, &page).await?;
        let Some(last) = reports.last() else {
            return Ok(counted);
        };
        page.after = Some(last.spec.id.clone());
        for report in reports {
            let floor = floor(caller, &report.spec.id).await?;
            let tally = report.tally;
            counted.insert(report.spec.id, StoredAction { tally, floor });
        }
    }
}

async fn floor(caller: &ScriptRunner, action: &Name) -> StoreResult<u64> {
    let mut command = cmd("HGET");
    command.arg(caller.key(&format!("a:{action}"))).arg("floor");
    let Some(text) = maybe_bytes(caller.send(&command).await?)? else {
        return Ok(0);
    };
    let text = std::str::from_utf8(&text).map_err(|_| strange())?;
    text.parse().map_err(|_| strange())
}
