//! Stored counters, as the scripts updated them.

use std::collections::HashMap;

use bytes::{Buf, Bytes};
use redis::cmd;

use super::super::RedisStore;
use super::super::error_map::unexpected_reply;
use super::super::reply::maybe_bytes;
use super::super::script_call::ScriptRunner;
use super::super::tenants::job_counts;
use crate::action::JobCounts;
use crate::contract::{ActionStore, JobQueue, StoreResult, TenantStore};
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
    pub(super) counts: JobCounts,
    /// Claims up to this number belong to an earlier action of the same name.
    pub(super) floor: u64,
}

impl StoredCounts {
    pub(super) async fn read(store: &RedisStore) -> StoreResult<Self> {
        Ok(Self {
            all: job_counts(&store.runner, "stored").await?,
            active: store.active_tenants().await?,
            lanes: read_lanes(store).await?,
            tenants: read_tenants(store).await?,
            actions: read_actions(store).await?,
        })
    }
}

async fn read_lanes(store: &RedisStore) -> StoreResult<HashMap<Name, u64>> {
    let runner = &store.runner;
    let mut counted = HashMap::new();
    for lane in store.lanes().await? {
        let mut command = cmd("HGET");
        command.arg(runner.key(&format!("w:{lane}"))).arg("");
        let queued = decode_waiting(maybe_bytes(runner.send(&command).await?)?)?;
        counted.insert(lane, queued);
    }
    Ok(counted)
}

/// Reads the second of a lane's numbers, which are doubles.
fn decode_waiting(lane: Option<Bytes>) -> StoreResult<u64> {
    let Some(mut lane) = lane else {
        return Ok(0);
    };
    let _clock = lane.try_get_f64().map_err(|_| unexpected_reply())?;
    let waiting = lane.try_get_f64().map_err(|_| unexpected_reply())?;
    format!("{waiting:.0}").parse().map_err(|_| unexpected_reply())
}

async fn read_tenants(store: &RedisStore) -> StoreResult<HashMap<Name, JobCounts>> {
    let mut counted = HashMap::new();
    let mut page = PageRequest::default();
    loop {
        let reports = store.tenants(page.clone()).await?;
        let Some(last) = reports.last() else {
            return Ok(counted);
        };
        page.after = Some(last.name.clone());
        let tallies = reports.into_iter().map(|report| (report.name, report.counts));
        counted.extend(tallies);
    }
}

async fn read_actions(store: &RedisStore) -> StoreResult<HashMap<Name, StoredAction>> {
    let mut counted = HashMap::new();
    let mut page = PageRequest::default();
    loop {
        let reports = store.actions(page.clone()).await?;
        let Some(last) = reports.last() else {
            return Ok(counted);
        };
        page.after = Some(last.spec.id.clone());
        for report in reports {
            let floor = read_floor(&store.runner, &report.spec.id).await?;
            let counts = report.counts;
            counted.insert(report.spec.id, StoredAction { counts, floor });
        }
    }
}

async fn read_floor(runner: &ScriptRunner, action: &Name) -> StoreResult<u64> {
    let mut command = cmd("HGET");
    command.arg(runner.key(&format!("a:{action}"))).arg("floor");
    let Some(text) = maybe_bytes(runner.send(&command).await?)? else {
        return Ok(0);
    };
    let text = std::str::from_utf8(&text).map_err(|_| unexpected_reply())?;
    text.parse().map_err(|_| unexpected_reply())
}
