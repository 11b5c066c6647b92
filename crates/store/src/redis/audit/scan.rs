//! Scan of every key that can hold a job.

use bytes::Bytes;
use redis::{Cmd, cmd};

use super::super::error_map::unexpected_reply;
use super::super::job_codec::{DEFERRED, JobRecord, decode_entry, decode_record, read_uint};
use super::super::reply::{self, ScriptReply};
use super::super::script_call::ScriptRunner;
use super::expected::StoredCounts;
use super::{JobPart, ScanTotals};
use crate::contract::StoreResult;
use crate::name::Name;

pub(super) async fn scan_jobs(runner: &ScriptRunner, stored: &StoredCounts) -> StoreResult<ScanTotals> {
    let mut scan = KeyScan {
        runner,
        stored,
        found: ScanTotals::default(),
    };
    for lane in stored.lanes.keys() {
        scan.scan_tenants(lane).await?;
        scan.scan_delayed(lane).await?;
    }
    for tenant in stored.tenants.keys() {
        scan.scan_held(tenant).await?;
    }
    scan.scan_sessions().await?;
    scan.scan_dead().await?;
    scan.scan_outcomes().await?;
    Ok(scan.found)
}

struct KeyScan<'a> {
    runner: &'a ScriptRunner,
    stored: &'a StoredCounts,
    found: ScanTotals,
}

/// Scanned job with its position.
struct ScannedJob<'a> {
    lane: &'a Name,
    tenant: &'a Name,
    part: JobPart,
    /// Claim number that separates actions of one name; `None` where the job cannot be of an
    /// earlier one.
    number: Option<u64>,
}

impl KeyScan<'_> {
    fn count(&mut self, job: &ScannedJob<'_>, record: &JobRecord) {
        let found = &mut self.found;
        job.part.count(&mut found.all);
        job.part.count(found.tenants.entry(job.tenant.clone()).or_default());
        if !matches!(job.part, JobPart::Claimed | JobPart::Dead) {
            *found.lanes.entry(job.lane.clone()).or_default() += 1;
        }
        let Some(action) = &record.action else {
            return;
        };
        let counts = self.stored.actions.get(action);
        let is_current = |floor| job.number.is_none_or(|number| number > floor);
        if counts.is_some_and(|counts| is_current(counts.floor)) {
            job.part.count(found.actions.entry(action.clone()).or_default());
        }
    }

    /// Counts a job that waits in its list, or was returned to it.
    fn count_record(&mut self, lane: &Name, tenant: &Name, record: Bytes) {
        let Ok(record) = decode_record(record) else {
            self.found.unreadable += 1;
            return;
        };
        let job = ScannedJob {
            lane,
            tenant,
            part: JobPart::Waiting,
            number: None,
        };
        self.count(&job, &record);
    }

    fn count_entry(&mut self, part: JobPart, claim: Option<u64>, entry: Bytes) {
        let Ok(entry) = decode_entry(entry) else {
            self.found.unreadable += 1;
            return;
        };
        let number = match part {
            JobPart::Dead => Some(entry.first),
            _ => claim,
        };
        let job = ScannedJob {
            lane: &entry.lane,
            tenant: &entry.tenant,
            part,
            number,
        };
        self.count(&job, &entry.record);
    }

    async fn scan_tenants(&mut self, lane: &Name) -> StoreResult<()> {
        let key = self.runner.key(&format!("w:{lane}"));
        let mut cursor = 0;
        loop {
            let (next, mut fields) = self.read_fields(key.as_bytes(), cursor).await?;
            while !fields.is_empty() {
                let (tenant, _slot) = (fields.bytes()?, fields.bytes()?);
                if !tenant.is_empty() {
                    let tenant = std::str::from_utf8(&tenant).map_err(|_| unexpected_reply())?;
                    let tenant = Name::new(tenant).map_err(|_| unexpected_reply())?;
                    self.scan_lists(lane, &tenant).await?;
                }
            }
            cursor = next;
            if cursor == 0 {
                return Ok(());
            }
        }
    }

    async fn scan_lists(&mut self, lane: &Name, tenant: &Name) -> StoreResult<()> {
        for class in 1..=3 {
            let join = format!("{class}:{}:{lane}:{tenant}", lane.as_str().len());
            let mut at = 0;
            while let Some(records) = self.read_piece("LRANGE", &format!("l:{join}"), &mut at).await? {
                for record in records {
                    self.count_record(lane, tenant, record);
                }
            }
            at = 0;
            while let Some(members) = self.read_piece("ZRANGE", &format!("b:{join}"), &mut at).await? {
                for mut member in members {
                    let _first = read_uint(&mut member, 6)?;
                    self.count_record(lane, tenant, member);
                }
            }
        }
        Ok(())
    }

    async fn scan_delayed(&mut self, lane: &Name) -> StoreResult<()> {
        let mut at = 0;
        while let Some(entries) = self.read_piece("ZRANGE", &format!("d:{lane}"), &mut at).await? {
            for entry in entries {
                let deferred = entry.first().is_some_and(|class| *class >= DEFERRED);
                let part = if deferred { JobPart::Deferred } else { JobPart::Delayed };
                self.count_entry(part, None, entry);
            }
        }
        Ok(())
    }

    /// Counts jobs that the pause of their action holds: its name, a space, the entry.
    async fn scan_held(&mut self, tenant: &Name) -> StoreResult<()> {
        let mut at = 0;
        while let Some(members) = self.read_piece("ZRANGE", &format!("h:{tenant}"), &mut at).await? {
            for member in members {
                let space = member.iter().position(|byte| *byte == b' ');
                let entry = member.slice(space.map_or(0, |space| space + 1)..);
                self.count_entry(JobPart::Waiting, None, entry);
            }
        }
        Ok(())
    }

    async fn scan_sessions(&mut self) -> StoreResult<()> {
        let mut at = 0;
        while let Some(sessions) = self.read_piece("ZRANGE", "sessions", &mut at).await? {
            for session in sessions {
                let key = [self.runner.key("s:").as_bytes(), &session].concat();
                self.scan_session(&key).await?;
            }
        }
        Ok(())
    }

    async fn scan_session(&mut self, key: &[u8]) -> StoreResult<()> {
        let mut cursor = 0;
        loop {
            let (next, mut fields) = self.read_fields(key, cursor).await?;
            while !fields.is_empty() {
                let (mut claim, entry) = (fields.bytes()?, fields.bytes()?);
                let claim = read_uint(&mut claim, 6).ok();
                self.count_entry(JobPart::Claimed, claim, entry);
            }
            cursor = next;
            if cursor == 0 {
                return Ok(());
            }
        }
    }

    async fn scan_dead(&mut self) -> StoreResult<()> {
        let mut at = 0;
        while let Some(letters) = self.read_piece("ZRANGE", "dead", &mut at).await? {
            for mut letter in letters {
                let _time = read_uint(&mut letter, 7)?;
                self.count_entry(JobPart::Dead, None, letter);
            }
        }
        Ok(())
    }

    async fn scan_outcomes(&mut self) -> StoreResult<()> {
        for action in self.stored.actions.keys() {
            let mut command = cmd("LLEN");
            command.arg(self.runner.key(&format!("r:{action}")));
            let outcomes = reply::number(&self.runner.send(&command).await?)?;
            self.found.outcomes.insert(action.clone(), outcomes);
        }
        Ok(())
    }

    /// Reads the next piece of a list or a sorted set.
    async fn read_piece(&self, command: &str, key: &str, at: &mut u64) -> StoreResult<Option<Vec<Bytes>>> {
        let mut command = cmd(command);
        let last = *at + PIECE - 1;
        command.arg(self.runner.key(key)).arg(*at).arg(last);
        let reply = ScriptReply::new(self.runner.send(&command).await?)?;
        *at += PIECE;
        let texts = reply.read_all(ScriptReply::bytes)?;
        Ok((!texts.is_empty()).then_some(texts))
    }

    async fn read_fields(&self, key: &[u8], cursor: u64) -> StoreResult<(u64, ScriptReply)> {
        let mut command: Cmd = cmd("HSCAN");
        command.arg(key).arg(cursor).arg("COUNT").arg(PIECE);
        let mut reply = ScriptReply::new(self.runner.send(&command).await?)?;
        Ok((reply.text_number()?, reply.list()?))
    }
}

/// A few hundred microseconds of the server's time.
const PIECE: u64 = 500;
