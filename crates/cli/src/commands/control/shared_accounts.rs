//! The accounts of limits that programs share: in a directory of this host, or on a server.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, bail};
use outflow::SystemClock;
use outflow::core::LimitUsage;
use outflow_ledger::LedgerDir;
use outflow_store::RedisLedger;
use serde_json::{Value, json};

use crate::config::ProgramConfig;
use crate::shared_ledger;

/// Where the accounts of a configuration are.
pub(super) enum SharedAccounts {
    Host(LedgerDir, PathBuf),
    Redis(RedisLedger),
}

impl SharedAccounts {
    pub(super) fn open(config: &ProgramConfig) -> anyhow::Result<Self> {
        if let Some(ledger) = shared_ledger::open(config)? {
            return Ok(Self::Redis(ledger));
        }
        let shared = &config.client.shared;
        let path = shared
            .ledger_dir()
            .context("no variable names a state directory: set `shared.dir`")?;
        Ok(Self::Host(LedgerDir::open(path)?, path.clone()))
    }

    pub(super) fn list(&self) -> anyhow::Result<Value> {
        match self {
            Self::Host(dir, path) => {
                let accounts = dir.accounts(&SystemClock::new())?;
                let accounts = accounts.iter().map(|account| {
                    let held = account.leases.iter().map(|lease| lease.calls).collect();
                    account_json(&account.name, &account.limits, held)
                });
                let accounts: Vec<_> = accounts.collect();
                Ok(json!({ "dir": path, "accounts": accounts }))
            }
            Self::Redis(ledger) => {
                let accounts = ledger.accounts(PATIENCE)?;
                let accounts = accounts.iter().map(|account| {
                    let held = account.held.iter().map(|(calls, _)| *calls).collect();
                    account_json(&account.name, &account.usage, held)
                });
                let accounts: Vec<_> = accounts.collect();
                Ok(json!({ "redis": ledger.name(), "accounts": accounts }))
            }
        }
    }

    /// Forgets what an account has counted.
    pub(super) fn forget(&self, account: &str) -> anyhow::Result<()> {
        let known = match self {
            Self::Host(dir, _) => dir.forget(account, &SystemClock::new())?,
            Self::Redis(ledger) => ledger.forget(account, PATIENCE)?,
        };
        if !known {
            bail!("no account is called {account:?}: `outflow limits --shared` lists them");
        }
        Ok(())
    }
}

fn account_json(name: &str, limits: &[LimitUsage], held: Vec<u64>) -> Value {
    let limit =
        |limit: &LimitUsage| json!({ "limit": limit.rate.to_string(), "arrived": limit.arrived, "held": limit.held });
    let limits: Vec<_> = limits.iter().map(limit).collect();
    json!({ "account": name, "limits": limits, "leases": held })
}

/// A server answers within milliseconds, or its timeout of a second ends.
const PATIENCE: Duration = Duration::from_secs(5);
