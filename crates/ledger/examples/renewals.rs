//! A process that leases units of an account and prints what it was granted.
//!
//! `renewals DIR RATE CALLS` joins the account `api` in a directory, leases so many calls one by one, returns
//! nothing, and leaves it to the account to count them. Tests kill it at every system call.

use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use outflow_core::{LeaseRequest, LeaseUnits, Limit, ManualClock, Nanos, QuotaLedger as _, QuotaWant, WallTime};
use outflow_ledger::{HostLedger, LedgerDir};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [dir, rate, calls] = &arguments[..] else {
        return Err("usage: renewals DIR RATE CALLS".into());
    };
    let limits = vec![Limit::sliding(rate.parse()?)];
    // Time stands still: what a window forgets is no part of these tests.
    let clock = ManualClock::new(Nanos::from_secs(1_000), WallTime::from_unix_secs(1_760_000_000));
    let ledger = HostLedger::open(LedgerDir::open(Path::new(dir))?, Arc::new(clock))?;
    let mut joined = 0;
    for number in 1..=calls.parse()? {
        let request = LeaseRequest {
            holder: std::process::id().into(),
            number,
            joined,
            limits: limits.clone(),
            arrived: Vec::new(),
            returned: LeaseUnits::ZERO,
            wanted: QuotaWant::calls(1),
            ttl: Duration::from_secs(2),
            timeout: Duration::from_secs(10),
            facts_seen: 0,
            facts: Some((number - 1, vec![number], Duration::from_mins(1))),
        };
        let (send, answer) = channel();
        let reply = Box::new(move |answered| {
            let _the_main_thread_waits = send.send(answered);
        });
        ledger.renew("api", Arc::new(request), reply);
        let answer = answer.recv()??;
        joined = answer.joined;
        let mut out = std::io::stdout().lock();
        writeln!(out, "{}", answer.granted.calls)?;
        out.flush()?;
    }
    Ok(())
}
