//! Several routes to one upstream that take turns under the same load.

use std::net::SocketAddr;

use super::wrk::{Load, Way};
use crate::figure::{Figure, Goal};
use crate::measure::Series;
use crate::proxies::{Proxy, RequestForm};

/// The proxies and their measurements.
pub(super) struct Contest {
    direct: String,
    ask: RequestForm,
    load: Load,
    /// The first is ours.
    proxies: Vec<Proxy>,
    /// First the direct connection, then the proxies in their order.
    seen: Vec<Seen>,
}

/// Request and load of all of them.
#[derive(Clone, Copy)]
pub(super) struct ContestSetup {
    pub(super) upstream: SocketAddr,
    pub(super) ask: RequestForm,
    /// Load under which processor time and rate are measured.
    pub(super) load: Load,
}

/// Measurements of one route to the upstream, round by round.
#[derive(Default)]
pub(super) struct Seen {
    pub(super) micros: Vec<f64>,
    pub(super) rate: Vec<f64>,
    pub(super) p50_alone: Vec<f64>,
    pub(super) p99: Vec<f64>,
    strays: f64,
}

impl Contest {
    pub(super) fn new(course: ContestSetup, ours: Proxy, peers: Vec<Proxy>) -> Self {
        let ContestSetup { upstream, ask, load } = course;
        let mut proxies = vec![ours];
        proxies.extend(peers);
        let seen = std::iter::repeat_with(Seen::default).take(proxies.len() + 1);
        Self {
            direct: format!("http://{upstream}{}", ask.path()),
            ask,
            load,
            seen: seen.collect(),
            proxies,
        }
    }

    /// Gives every route a turn; each round starts with another one.
    pub(super) fn round(&mut self, round: usize) {
        for turn in 0..self.seen.len() {
            let index = (round + turn) % self.seen.len();
            let proxy = index.checked_sub(1).and_then(|place| self.proxies.get(place));
            let way = match proxy {
                Some(proxy) => Way::through(proxy, self.ask),
                None => Way::to(self.direct.clone(), self.ask),
            };
            let before = proxy.and_then(|proxy| proxy.usage().ok());
            let load = self.load.run(&way);
            let after = proxy.and_then(|proxy| proxy.usage().ok());
            let alone = Load::with_connections(1).run(&way);
            let (Some(seen), Some(load), Some(alone)) = (self.seen.get_mut(index), load, alone) else {
                continue;
            };
            if let (Some(before), Some(after)) = (before, after) {
                let spent = after.processor.saturating_sub(before.processor);
                seen.micros.push(spent.as_secs_f64() * 1e6 / load.requests);
            }
            seen.rate.push(load.rate);
            seen.p99.push(load.p99.as_secs_f64() * 1e6);
            seen.p50_alone.push(alone.p50.as_secs_f64() * 1e6);
            seen.strays = seen.strays.max(load.strays).max(alone.strays);
        }
    }

    /// Returns ours, while it runs.
    pub(super) fn first(&self) -> Option<&Proxy> {
        self.proxies.first()
    }

    /// Returns all, ours first.
    pub(super) fn proxies(&self) -> &[Proxy] {
        &self.proxies
    }

    /// Returns the memory of each, in MiB.
    pub(super) fn resident(&self) -> Vec<f64> {
        self.proxies.iter().map(Proxy::resident).collect()
    }

    /// Returns the measurements of ours.
    pub(super) fn ours(&self) -> &Seen {
        self.seen.get(1).unwrap_or(&NOTHING)
    }

    /// Returns the measurements of this peer.
    pub(super) fn peer(&self, name: &str) -> Option<&Seen> {
        self.peers().find_map(|(known, seen)| (known == name).then_some(seen))
    }

    /// Compares ours with each peer, with this goal.
    pub(super) fn against(&self, figure: &str, part: fn(&Seen) -> &[f64], goal: fn(&str) -> Goal) -> Vec<Figure> {
        let ours = series("Outflow", self.ours(), part);
        self.peers()
            .map(|(name, seen)| Figure::against(figure, goal(name), &ours, &series(name, seen, part)))
            .collect()
    }

    /// Compares a value that depends on a route and on the direct connection; the peers' are shown.
    pub(super) fn relative_to_direct(
        &self,
        figure: &str,
        goal: Goal,
        made: fn(&Seen, &Seen) -> Vec<f64>,
    ) -> Vec<Figure> {
        let direct = self.seen.first().unwrap_or(&NOTHING);
        let peers = self.peers();
        let theirs: Vec<_> = peers.map(|(name, seen)| (name, made(seen, direct))).collect();
        let theirs: Vec<_> = theirs.iter().map(|(name, all)| (*name, &all[..])).collect();
        Figure::with_peers(figure, goal, &made(self.ours(), direct), &theirs)
    }

    /// Returns the processor time of one call, over one turn.
    pub(super) fn micros_of(&self, proxy: &Proxy) -> Option<f64> {
        let before = proxy.usage().ok()?;
        let load = self.load.run(&Way::through(proxy, self.ask))?;
        let spent = proxy.usage().ok()?.processor;
        let spent = spent.saturating_sub(before.processor);
        (!spent.is_zero()).then(|| spent.as_secs_f64() * 1e6 / load.requests)
    }

    fn peers(&self) -> impl Iterator<Item = (&'static str, &Seen)> {
        let names = self.proxies.iter().skip(1).map(|proxy| proxy.name);
        names.zip(self.seen.iter().skip(2))
    }
}

/// Returns the values of a contender without failed calls.
pub(super) fn named(name: &'static str, nanos: Vec<f64>) -> Series {
    Series {
        name,
        nanos,
        strays: 0.0,
    }
}

fn series(name: &'static str, seen: &Seen, part: fn(&Seen) -> &[f64]) -> Series {
    Series {
        strays: seen.strays,
        ..named(name, part(seen).to_vec())
    }
}

/// Measurements of a route without a turn.
static NOTHING: Seen = Seen {
    micros: Vec::new(),
    rate: Vec::new(),
    p50_alone: Vec::new(),
    p99: Vec::new(),
    strays: 0.0,
};
