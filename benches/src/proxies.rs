//! Proxies as programs: ours and those that people would use instead, each with one worker before the
//! same upstream.
//!
//! A proxy is started with a configuration of our making in a directory of its own and killed when it is
//! dropped. Connections to the upstream are kept by all of them. Where a proxy writes a log of its calls
//! by default it writes one here, and so does ours; the others are spared that, in their favour. One that
//! is not installed is missing and said to be.

mod ask;
mod caddy;
mod envoy;
mod haproxy;
mod library;
mod litellm;
mod nginx;
mod ours;
mod portkey;
mod process;
mod traefik;

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::PathBuf;

pub(crate) use ask::{ANSWER, Ask};
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

/// One that people would use instead.
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
    /// What every run compares with.
    pub(crate) const NEAREST: [Self; 3] = [Self::Nginx, Self::HaProxy, Self::Envoy];
    /// What a full run adds to them.
    pub(crate) const FURTHER: [Self; 4] = [Self::Hyper, Self::Pingora, Self::Traefik, Self::Caddy];
    /// Those that send nothing on but the calls of a language model.
    pub(crate) const GATEWAYS: [Self; 2] = [Self::Portkey, Self::LiteLlm];

    /// What it is called in the table.
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

    /// Starts it before this upstream. Those that neither keep a limit nor repeat do every job by
    /// passing on.
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
        started.map(|proxy| proxy.named(self.name()))
    }

    /// Those of them that run here; each of the others is named on the way.
    pub(crate) fn start_all(
        wanted: &[Self],
        upstream: SocketAddr,
        job: Job,
    ) -> (Vec<Proxy>, Vec<Self>) {
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

    /// Tells whoever watches the run.
    pub(crate) fn say_missing(self, why: &io::Error) {
        eprintln!(
            "SKIPPED without {}: {why}; install it to have it in the table",
            self.name()
        );
    }
}

/// A port that was free a moment ago.
fn free_port() -> io::Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    Ok(listener.local_addr()?.port())
}

/// A program where `cargo xtask bench` puts it, or of the system where nobody said where that is.
pub(crate) fn installed(place: &str) -> PathBuf {
    let base = std::env::var_os("OUTFLOW_PEERS").map(PathBuf::from);
    let here = base.map(|base| base.join(place)).filter(|at| at.exists());
    here.unwrap_or_else(|| place.rsplit('/').next().unwrap_or(place).into())
}
