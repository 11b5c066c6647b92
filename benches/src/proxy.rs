//! `proxy`: what the sidecar adds to a call, beside other proxies on the same sockets.
//!
//! One upstream, one load generator (wrk), one worker for every proxy, and turns of a second or two
//! that rotate, so that all of them see the same moments of the machine. Processor time is the
//! proxy's own, from the system's account of its process; latencies and rates are wrk's. Ours has a
//! limit, health, metrics and the log on.

mod wrk;

use std::net::SocketAddr;
use std::time::Duration;

use crate::client::server;
use crate::clock;
use crate::figure::{Figure, Goal};
use crate::measure::{Plan, Series};
use crate::proxies::{self, Job, Limits, Proxy};
use wrk::Load;

/// Everything that the sidecar promises about its own cost.
pub(crate) fn figures(plan: Plan) -> Vec<Figure> {
    clock::since_begin();
    let started = server::start().and_then(|upstream| {
        let ours = proxies::ours(upstream, Limits::OutOfReach)?;
        Ok((upstream, ours))
    });
    let (upstream, ours) = match started {
        Ok(started) => started,
        Err(why) => return vec![Figure::missing("proxy", "", &format!("missing: {why}"))],
    };
    if !wrk::is_installed() {
        return vec![Figure::missing(
            "proxy",
            "",
            "missing: wrk is not installed",
        )];
    }
    let idle = ours.spent().map_or(f64::NAN, |spent| spent.resident_mib);
    let (peers, missing) = proxies::peers(upstream, Job::Pass);
    for name in missing {
        eprintln!("SKIPPED without {name}: install it to have it in the table");
    }
    let mut contest = Contest::new(upstream, ours, peers);
    let rounds = if plan.is_thorough() { 9 } else { 3 };
    for round in 0..rounds {
        contest.round(round);
    }
    let mut figures = contest.told();
    figures.extend(memory(&contest, idle));
    figures.extend(many(upstream, &contest));
    figures
}

/// Who is called, and what was seen of each.
struct Contest {
    direct: String,
    proxies: Vec<Proxy>,
    /// First that of the direct way, then the proxies' in their order.
    seen: Vec<Seen>,
}

/// What was seen of one way to the upstream, round by round.
#[derive(Default)]
struct Seen {
    micros: Vec<f64>,
    rate: Vec<f64>,
    p50_alone: Vec<f64>,
    p99: Vec<f64>,
    strays: f64,
}

impl Contest {
    fn new(upstream: SocketAddr, ours: Proxy, peers: Vec<Proxy>) -> Self {
        let mut proxies = vec![ours];
        proxies.extend(peers);
        let seen = std::iter::repeat_with(Seen::default).take(proxies.len() + 1);
        Self {
            direct: format!("http://{upstream}/"),
            seen: seen.collect(),
            proxies,
        }
    }

    fn round(&mut self, round: usize) {
        for turn in 0..self.seen.len() {
            let seat = (round + turn) % self.seen.len();
            let proxy = seat
                .checked_sub(1)
                .and_then(|place| self.proxies.get(place));
            let url = proxy.map_or_else(|| self.direct.clone(), |proxy| proxy.url("/"));
            let before = proxy.and_then(|proxy| proxy.spent().ok());
            let crowd = Load::of(64).run(&url);
            let after = proxy.and_then(|proxy| proxy.spent().ok());
            let alone = Load::of(1).run(&url);
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

    fn told(&self) -> Vec<Figure> {
        let [direct, ours, peers @ ..] = &self.seen[..] else {
            return Vec::new();
        };
        let names: Vec<_> = self
            .proxies
            .iter()
            .skip(1)
            .map(|proxy| proxy.name)
            .collect();
        let peer = |name: &str| {
            let place = names.iter().position(|known| *known == name)?;
            peers.get(place)
        };
        let mut figures = vec![Figure::alone("proxy_cpu_us", Goal::Own(25.0), &ours.micros)];
        for (name, most) in [("Envoy", 0.5), ("nginx", 2.0)] {
            figures.extend(peer(name).map(|peer| {
                let (ours, peer) = (
                    series("Outflow", ours, &ours.micros),
                    series(name, peer, &peer.micros),
                );
                Figure::against("proxy_cpu_us", Goal::Ratio(most), &ours, &peer)
            }));
        }
        figures.extend(peer("HAProxy").map(|peer| {
            let (ours, peer) = (
                series("Outflow", ours, &ours.micros),
                series("HAProxy", peer, &peer.micros),
            );
            Figure::against("proxy_cpu_us", Goal::Shown, &ours, &peer)
        }));
        let shares = |seen: &Seen| part(&seen.rate, &direct.rate);
        let theirs: Vec<_> = names
            .iter()
            .copied()
            .zip(peers.iter().map(shares))
            .collect();
        let beside: Vec<_> = theirs.iter().map(|(name, all)| (*name, &all[..])).collect();
        let goal = Goal::AtLeast(0.30);
        figures.extend(Figure::beside(
            "proxy_rps_of_direct",
            goal,
            &shares(ours),
            &beside,
        ));
        figures.extend(peer("Envoy").map(|envoy| {
            let times = part(&ours.rate, &envoy.rate);
            Figure::alone("proxy_rps_of_envoy", Goal::AtLeast(2.0), &times)
        }));
        let added = |seen: &Seen| over(&seen.p50_alone, &direct.p50_alone);
        let theirs: Vec<_> = names.iter().copied().zip(peers.iter().map(added)).collect();
        let beside: Vec<_> = theirs.iter().map(|(name, all)| (*name, &all[..])).collect();
        let goal = Goal::Own(25.0);
        figures.extend(Figure::beside(
            "proxy_added_p50_us",
            goal,
            &added(ours),
            &beside,
        ));
        for name in &names {
            let goal = if *name == "HAProxy" {
                Goal::Ratio(1.3)
            } else {
                Goal::Shown
            };
            figures.extend(peer(name).map(|peer| {
                let (ours, peer) = (
                    series("Outflow", ours, &ours.p99),
                    series(name, peer, &peer.p99),
                );
                Figure::against("proxy_p99_us", goal, &ours, &peer)
            }));
        }
        figures
    }
}

/// Memory at rest and with a thousand connections.
fn memory(contest: &Contest, idle: f64) -> Vec<Figure> {
    let mut figures = vec![Figure::alone(
        "proxy_rss_idle_mib",
        Goal::Own(25.0),
        &[idle],
    )];
    for (place, proxy) in contest.proxies.iter().enumerate() {
        let crowded = Load::of(1_000).run(&proxy.url("/"));
        let resident = proxy.spent().map_or(f64::NAN, |spent| spent.resident_mib);
        if crowded.is_none() {
            continue;
        }
        if place == 0 {
            figures.push(Figure::alone(
                "proxy_rss_1000_mib",
                Goal::Own(64.0),
                &[resident],
            ));
        } else {
            let mut figure = Figure::missing("proxy_rss_1000_mib", proxy.name, "shown");
            figure.peer = Some(resident);
            figure.ok = true;
            figures.push(figure);
        }
    }
    figures
}

/// A thousand APIs with a hundred groups each.
fn many(upstream: SocketAddr, contest: &Contest) -> Vec<Figure> {
    let Ok(crowded) = proxies::ours_at(&proxies::many_apis(upstream)) else {
        return vec![Figure::missing(
            "proxy_1k_apis",
            "",
            "missing: it does not start",
        )];
    };
    let resident = crowded.spent().map_or(f64::NAN, |spent| spent.resident_mib);
    let (mut many, mut one) = (Vec::new(), Vec::new());
    for _ in 0..3 {
        many.extend(micros_of(&crowded));
        one.extend(contest.proxies.first().and_then(micros_of));
    }
    let started = crowded.ready_after.as_secs_f64();
    let (many, one) = (
        named("Outflow, 1,000 APIs", many),
        named("Outflow, one API", one),
    );
    vec![
        Figure::alone("proxy_1k_apis_start_s", Goal::Own(1.0), &[started]),
        Figure::alone("proxy_1k_apis_rss_mib", Goal::Own(100.0), &[resident]),
        Figure::against("proxy_1k_apis_cpu_us", Goal::Ratio(1.1), &many, &one),
    ]
}

/// Processor time of one call, over one turn.
fn micros_of(proxy: &Proxy) -> Option<f64> {
    let before = proxy.spent().ok()?;
    let load = Load::of(64).run(&proxy.url("/"))?;
    let spent = proxy
        .spent()
        .ok()?
        .processor
        .saturating_sub(before.processor);
    (spent > Duration::ZERO).then(|| spent.as_secs_f64() * 1e6 / load.requests)
}

fn series(name: &'static str, seen: &Seen, values: &[f64]) -> Series {
    Series {
        strays: seen.strays,
        ..named(name, values.to_vec())
    }
}

fn named(name: &'static str, nanos: Vec<f64>) -> Series {
    Series {
        name,
        nanos,
        strays: 0.0,
    }
}

fn part(ours: &[f64], whole: &[f64]) -> Vec<f64> {
    ours.iter()
        .zip(whole)
        .map(|(ours, whole)| ours / whole)
        .collect()
}

fn over(ours: &[f64], base: &[f64]) -> Vec<f64> {
    ours.iter()
        .zip(base)
        .map(|(ours, base)| ours - base)
        .collect()
}
