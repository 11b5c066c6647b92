//! Proxies as programs: ours and those that people would use instead, each with one worker before the
//! same upstream.
//!
//! A proxy is started with a configuration of our making in a directory of its own and killed when it is
//! dropped. One that is not installed is missing and said to be.

mod envoy;
mod haproxy;
mod nginx;
mod ours;
mod process;

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};

pub(crate) use ours::{Limits, many_apis, ours, ours_at};
pub(crate) use process::{Proxy, processor_of};

/// How calls are sent on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Job {
    /// All of them, as fast as they come.
    Pass,
    /// At fifty a second, or with repetitions, as the proxy can do it.
    Spare,
}

/// Those that run here and can do the job, and the names of those that are not installed.
pub(crate) fn peers(upstream: SocketAddr, job: Job) -> (Vec<Proxy>, Vec<&'static str>) {
    let mut wanted: Vec<(&'static str, io::Result<Proxy>)> = vec![
        ("nginx", nginx::start(upstream, job)),
        ("Envoy", envoy::start(upstream, job)),
    ];
    if job == Job::Pass {
        wanted.push(("HAProxy", haproxy::start(upstream)));
    }
    let (mut here, mut missing) = (Vec::new(), Vec::new());
    for (name, started) in wanted {
        match started {
            Ok(proxy) => here.push(proxy),
            Err(_) => missing.push(name),
        }
    }
    (here, missing)
}

/// A port that was free a moment ago.
fn free_port() -> io::Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    Ok(listener.local_addr()?.port())
}
