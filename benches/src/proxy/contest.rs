//! Ways to one upstream that take turns under the same load.

use std::net::SocketAddr;

use super::wrk::{Load, Way};
use crate::figure::{Figure, Goal};
use crate::measure::Series;
use crate::proxies::{Ask, Proxy};

/// Who is called, and what was seen of each.
pub(super) struct Contest {
    direct: String,
    ask: Ask,
    crowd: Load,
    /// The first is ours.
    proxies: Vec<Proxy>,
    /// First that of the direct way, then the proxies' in their order.
    seen: Vec<Seen>,
}

/// What all of them are put to.
#[derive(Clone, Copy)]
pub(super) struct Course {
    pub(super) upstream: SocketAddr,
    pub(super) ask: Ask,
    /// Under which processor time and rate are taken.
    pub(super) crowd: Load,
}

/// What was seen of one way to the upstream, round by round.
#[derive(Default)]
pub(super) struct Seen {
    pub(super) micros: Vec<f64>,
    pub(super) rate: Vec<f64>,
    pub(super) p50_alone: Vec<f64>,
    pub(super) p99: Vec<f64>,
    strays: f64,
}

impl Contest {
    pub(super) fn new(course: Course, ours: Proxy, peers: Vec<Proxy>) -> Self {
        let Course {
            upstream,
            ask,
            crowd,
        } = course;
        let mut proxies = vec![ours];
        proxies.extend(peers);
        let seen = std::iter::repeat_with(Seen::default).take(proxies.len() + 1);
        Self {
            direct: format!("http://{upstream}{}", ask.path()),
            ask,
            crowd,
            seen: seen.collect(),
            proxies,
        }
    }

    /// A turn for everyone, each round begun by another.
    pub(super) fn round(&mut self, round: usize) {
        for turn in 0..self.seen.len() {
            let seat = (round + turn) % self.seen.len();
            let proxy = seat
                .checked_sub(1)
                .and_then(|place| self.proxies.get(place));
            let way = match proxy {
                Some(proxy) => Way::through(proxy, self.ask),
                None => Way::to(self.direct.clone(), self.ask),
            };
            let before = proxy.and_then(|proxy| proxy.spent().ok());
            let crowd = self.crowd.run(&way);
            let after = proxy.and_then(|proxy| proxy.spent().ok());
            let alone = Load::of(1).run(&way);
            let (Some(seen), Some(crowd), Some(alone)) = (self.seen.get_mut(seat), crowd, alone)
            else {
                continue;
            };
            if let (Some(before), Some(after)) = (before, after) {
                let spent = after.processor.saturating_sub(before.processor);
                seen.micros.push(spent.as_secs_f64() * 1e6 / crowd.requests);
            }
            seen.rate.push(crowd.rate);
            seen.p99.push(crowd.p99.as_secs_f64() * 1e6);
            seen.p50_alone.push(alone.p50.as_secs_f64() * 1e6);
            seen.strays = seen.strays.max(crowd.strays).max(alone.strays);
        }
    }

    /// Ours, while it runs.
    pub(super) fn first(&self) -> Option<&Proxy> {
        self.proxies.first()
    }

    /// All, ours first.
    pub(super) fn proxies(&self) -> &[Proxy] {
        &self.proxies
    }

    /// What each of them holds of the memory now, in MiB.
    pub(super) fn resident(&self) -> Vec<f64> {
        self.proxies.iter().map(Proxy::resident).collect()
    }

    /// What was seen of ours.
    pub(super) fn ours(&self) -> &Seen {
        self.seen.get(1).unwrap_or(&NOTHING)
    }

    /// What was seen of this peer.
    pub(super) fn peer(&self, name: &str) -> Option<&Seen> {
        self.peers()
            .find_map(|(known, seen)| (known == name).then_some(seen))
    }

    /// A figure of ours against each peer's, with the goal that is set for it.
    pub(super) fn against(
        &self,
        figure: &str,
        part: fn(&Seen) -> &[f64],
        goal: fn(&str) -> Goal,
    ) -> Vec<Figure> {
        let ours = series("Outflow", self.ours(), part);
        self.peers()
            .map(|(name, seen)| {
                Figure::against(figure, goal(name), &ours, &series(name, seen, part))
            })
            .collect()
    }

    /// A figure made of what was seen of a way and of the direct one; the peers' are shown.
    pub(super) fn beside(
        &self,
        figure: &str,
        goal: Goal,
        made: fn(&Seen, &Seen) -> Vec<f64>,
    ) -> Vec<Figure> {
        let direct = self.seen.first().unwrap_or(&NOTHING);
        let peers = self.peers();
        let theirs: Vec<_> = peers
            .map(|(name, seen)| (name, made(seen, direct)))
            .collect();
        let theirs: Vec<_> = theirs.iter().map(|(name, all)| (*name, &all[..])).collect();
        Figure::beside(figure, goal, &made(self.ours(), direct), &theirs)
    }

    /// Processor time of one call, over one turn.
    pub(super) fn micros_of(&self, proxy: &Proxy) -> Option<f64> {
        let before = proxy.spent().ok()?;
        let load = self.crowd.run(&Way::through(proxy, self.ask))?;
        let spent = proxy.spent().ok()?.processor;
        let spent = spent.saturating_sub(before.processor);
        (!spent.is_zero()).then(|| spent.as_secs_f64() * 1e6 / load.requests)
    }

    fn peers(&self) -> impl Iterator<Item = (&'static str, &Seen)> {
        let names = self.proxies.iter().skip(1).map(|proxy| proxy.name);
        names.zip(self.seen.iter().skip(2))
    }
}

/// Values of one contender that nothing went astray in.
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

/// Of a way that had no turn.
static NOTHING: Seen = Seen {
    micros: Vec::new(),
    rate: Vec::new(),
    p50_alone: Vec::new(),
    p99: Vec::new(),
    strays: 0.0,
};
