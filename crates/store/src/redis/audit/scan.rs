//! Scan of every key that can hold a job.

use bytes::Bytes;
use redis::{Cmd, cmd};

use super::super::error_map::strange;
use super::super::job_codec::{JobRecord, PUT_OFF, number, read, read_entry};
use super::super::reply::{self, ScriptReply};
use super::super::script_call::ScriptRunner;
use super::expected::StoredCounts;
use super::{JobPart, ScanTotals};
use crate::contract::StoreResult;
use crate::name::Name;

pub(super) async fn walk(caller: &ScriptRunner, books: &StoredCounts) -> StoreResult<ScanTotals> {
    let mut walk = KeyScan {
        caller,
        books,
        found: ScanTotals::default(),
    };
    for lane in books.lanes.keys() {
        walk.scan_tenants(lane).await?;
        walk.delayed(lane).await?;
    }
    for tenant in books.tenants.keys() {
        walk.held(tenant).await?;
    }
    walk.sessions().await?;
    walk.dead().await?;
    walk.scan_notified().await?;
    Ok(walk.found)
}

struct KeyScan<'a> {
    caller: &'a ScriptRunner,
    books: &'a StoredCounts,
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
    fn note(&mut self, seen: &ScannedJob<'_>, record: &JobRecord) {
        let found = &mut self.found;
        found.all.add(seen.part);
        let tenant = found.tenants.entry(seen.tenant.clone()).or_default();
        tenant.add(seen.part);
        if !matches!(seen.part, JobPart::Claimed | JobPart::Dead) {
            *found.lanes.entry(seen.lane.clone()).or_default() += 1;
        }
        let Some(action) = &record.action else {
            return;
        };
        let kept = self.books.actions.get(action);
        let is_its_own = |floor| seen.number.is_none_or(|number| number > floor);
        if kept.is_some_and(|kept| is_its_own(kept.floor)) {
            found
                .actions
                .entry(action.clone())
                .or_default()
                .add(seen.part);
        }
    }

    /// Counts a job that waits in its list, or was returned to it.
    fn note_record(&mut self, lane: &Name, tenant: &Name, record: Bytes) {
        let Ok(record) = read(record) else {
            self.found.unreadable += 1;
            return;
        };
        let seen = ScannedJob {
            lane,
            tenant,
            part: JobPart::Waiting,
            number: None,
        };
        self.note(&seen, &record);
    }

    fn note_entry(&mut self, part: JobPart, claim: Option<u64>, entry: Bytes) {
        let Ok(entry) = read_entry(entry) else {
            self.found.unreadable += 1;
            return;
        };
        let number = match part {
            JobPart::Dead => Some(entry.first),
            _ => claim,
        };
        let seen = ScannedJob {
            lane: &entry.lane,
            tenant: &entry.tenant,
            part,
            number,
        };
        self.note(&seen, &entry.record);
    }

    async fn scan_tenants(&mut self, lane: &Name) -> StoreResult<()> {
        let key = self.caller.key(&format!("w:{lane}"));
        let mut cursor = 0;
        loop {
            let (next, mut fields) = self.scan(key.as_bytes(), cursor).await?;
            while !fields.is_empty() {
                let (tenant, _seat) = (fields.bytes()?, fields.bytes()?);
                if !tenant.is_empty() {
                    let tenant = std::str::from_utf8(&tenant).map_err(|_| strange())?;
                    let tenant = Name::new(tenant).map_err(|_| strange())?;
                    self.lists(lane, &tenant).await?;
                }
            }
            cursor = next;
            if cursor == 0 {
                return Ok(());
            }
        }
    }

    async fn lists(&mut self, lane: &Name, tenant: &Name) -> StoreResult<()> {
        for class in 1..=3 {
            let join = format!("{class}:{}:{lane}:{tenant}", lane.as_str().len());
            let mut at = 0;
            while let Some(records) = self.piece("LRANGE", &format!("l:{join}"), &mut at).await? {
                for record in records {
                    self.note_record(lane, tenant, record);
                }
            }
            at = 0;
            while let Some(members) = self.piece("ZRANGE", &format!("b:{join}"), &mut at).await? {
                for mut member in members {
                    let _first = number(&mut member, 6)?;
                    self.note_record(lane, tenant, member);
                }
            }
        }
        Ok(())
    }

    async fn delayed(&mut self, lane: &Name) -> StoreResult<()> {
        let mut at = 0;
        while let Some(entries) = self.piece("ZRANGE", &format!("d:{lane}"), &mut at).await? {
            for entry in entries {
                let put_off = entry.first().is_some_and(|class| *class >= PUT_OFF);
                let part = if put_off {
                    JobPart::PutOff
                } else {
                    JobPart::Delayed
                };
                self.note_entry(part, None, entry);
            }
        }
        Ok(())
    }

    /// Counts jobs that the pause of their action holds: its name, a space, the entry.
    async fn held(&mut self, tenant: &Name) -> StoreResult<()> {
        let mut at = 0;
        while let Some(members) = self
            .piece("ZRANGE", &format!("h:{tenant}"), &mut at)
            .await?
        {
            for member in members {
                let space = member.iter().position(|byte| *byte == b' ');
                let entry = member.slice(space.map_or(0, |space| space + 1)..);
                self.note_entry(JobPart::Waiting, None, entry);
            }
        }
        Ok(())
    }

    async fn sessions(&mut self) -> StoreResult<()> {
        let mut at = 0;
        while let Some(sessions) = self.piece("ZRANGE", "sessions", &mut at).await? {
            for session in sessions {
                let key = [self.caller.key("s:").as_bytes(), &session].concat();
                self.session(&key).await?;
            }
        }
        Ok(())
    }

    async fn session(&mut self, key: &[u8]) -> StoreResult<()> {
        let mut cursor = 0;
        loop {
            let (next, mut fields) = self.scan(key, cursor).await?;
            while !fields.is_empty() {
                let (mut claim, entry) = (fields.bytes()?, fields.bytes()?);
                let claim = number(&mut claim, 6).ok();
                self.note_entry(JobPart::Claimed, claim, entry);
            }
            cursor = next;
            if cursor == 0 {
                return Ok(());
            }
        }
    }

    async fn dead(&mut self) -> StoreResult<()> {
        let mut at = 0;
        while let Some(letters) = self.piece("ZRANGE", "dead", &mut at).await? {
            for mut letter in letters {
                let _time = number(&mut letter, 7)?;
                self.note_entry(JobPart::Dead, None, letter);
            }
        }
        Ok(())
    }

    async fn scan_notified(&mut self) -> StoreResult<()> {
        for action in self.books.actions.keys() {
            let mut command = cmd("LLEN");
            command.arg(self.caller.key(&format!("r:{action}")));
            let told = reply::number(&self.caller.send(&command).await?)?;
            self.found.told.insert(action.clone(), told);
        }
        Ok(())
    }

    /// Reads the next piece of a list or a sorted set.
    async fn piece(
        &self,
        command: &str,
        key: &str,
        at: &mut u64,
    ) -> StoreResult<Option<Vec<Bytes>>> {
        let mut command = cmd(command);
        let last = *at + PIECE - 1;
        command.arg(self.caller.key(key)).arg(*at).arg(last);
        let mut reply = ScriptReply::new(self.caller.send(&command).await?)?;
        *at += PIECE;
        let mut texts = Vec::with_capacity(reply.len());
        while !reply.is_empty() {
            texts.push(reply.bytes()?);
        }
        Ok((!texts.is_empty()).then_some(texts))
    }

    async fn scan(&self, key: &[u8], cursor: u64) -> StoreResult<(u64, ScriptReply)> {
        let mut command: Cmd = cmd("HSCAN");
        command.arg(key).arg(cursor).arg("COUNT").arg(PIECE);
        let mut reply = ScriptReply::new(self.caller.send(&command).await?)?;
        Ok((reply.written_number()?, reply.list()?))
    }
}

/// A few hundred microseconds of the server's time.
const PIECE: u64 = 500;
