//! Proxies as programs: ours and the alternatives, each with one worker and one upstream.
//!
//! A proxy starts with a generated configuration in its own directory and is killed when it is dropped. All of
//! them pool connections to the upstream. A proxy that logs calls by default writes a log here, and so does
//! ours; the others write none, to their advantage. A proxy that is not installed is reported as missing.

mod caddy;
mod envoy;
mod haproxy;
mod library;
mod litellm;
mod nginx;
mod ours;
mod portkey;
mod process;
mod request_form;
mod traefik;

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::PathBuf;

pub(crate) use ours::{Limits, many_apis, ours, ours_at};
pub(crate) use process::{Proxy, processor_of};
pub(crate) use request_form::{ANSWER, RequestForm};

/// Mode of forwarding.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Job {
    /// All calls, as fast as they come.
    Pass,
    /// At fifty a second, or with retries, whichever the proxy supports.
    Spare,
}

/// An alternative to ours.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Peer {
    Nginx,
    HaProxy,
    Envoy,
    Hyper,
    Pingora,
    Traefik,
    Caddy,
    Portkey,
    LiteLlm,
}

impl Peer {
    /// Proxies of every run.
    pub(crate) const NEAREST: [Self; 3] = [Self::Nginx, Self::HaProxy, Self::Envoy];
    /// Additional proxies of a full run.
    pub(crate) const FURTHER: [Self; 4] = [Self::Hyper, Self::Pingora, Self::Traefik, Self::Caddy];
    /// Gateways that only forward calls of language models.
    pub(crate) const GATEWAYS: [Self; 2] = [Self::Portkey, Self::LiteLlm];

    /// Returns its name in the table.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Nginx => "nginx",
            Self::HaProxy => "HAProxy",
            Self::Envoy => "Envoy",
            Self::Hyper => "bare hyper + governor",
            Self::Pingora => "Pingora",
            Self::Traefik => "Traefik",
            Self::Caddy => "Caddy",
            Self::Portkey => "Portkey",
            Self::LiteLlm => "LiteLLM",
        }
    }

    /// Starts it with this upstream. Proxies without limits and retries forward in every mode.
    ///
    /// # Errors
    /// If it is not installed, or does not start.
    pub(crate) fn start(self, upstream: SocketAddr, job: Job) -> io::Result<Proxy> {
        let started = match self {
            Self::Nginx => nginx::start(upstream, job),
            Self::HaProxy => haproxy::start(upstream),
            Self::Envoy => envoy::start(upstream, job),
            Self::Hyper => library::start("peer-hyper", upstream),
            Self::Pingora => library::start("peer-pingora", upstream),
            Self::Traefik => traefik::start(upstream),
            Self::Caddy => caddy::start(upstream),
            Self::Portkey => portkey::start(upstream, job),
            Self::LiteLlm => litellm::start(upstream, job),
        };
        started.map(|proxy| proxy.with_name(self.name()))
    }

    /// Returns the proxies that run here, and reports each of the others.
    pub(crate) fn start_all(wanted: &[Self], upstream: SocketAddr, job: Job) -> (Vec<Proxy>, Vec<Self>) {
        let (mut here, mut missing) = (Vec::new(), Vec::new());
        for peer in wanted {
            match peer.start(upstream, job) {
                Ok(proxy) => here.push(proxy),
                Err(why) => {
                    peer.say_missing(&why);
                    missing.push(*peer);
                }
            }
        }
        (here, missing)
    }

    /// Prints a progress line.
    pub(crate) fn say_missing(self, why: &io::Error) {
        eprintln!(
            "SKIPPED without {}: {why}; install it to add it to the table",
            self.name()
        );
    }
}

/// Returns a port that was free a moment ago.
fn free_port() -> io::Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    Ok(listener.local_addr()?.port())
}

/// Returns the path of a program that `cargo xtask bench` installed, or its name for the system's search path.
pub(crate) fn installed(place: &str) -> PathBuf {
    let base = std::env::var_os("OUTFLOW_PEERS").map(PathBuf::from);
    let here = base.map(|base| base.join(place)).filter(|at| at.exists());
    here.unwrap_or_else(|| place.rsplit('/').next().unwrap_or(place).into())
}
