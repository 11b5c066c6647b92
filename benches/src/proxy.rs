//! `proxy`: overhead of the sidecar, compared with other proxies on the same sockets.
//!
//! One upstream, one load generator (wrk), one worker for every proxy, and turns of a second or two that
//! rotate, so that all see the same moments of the machine. Processor time is the proxy's own, from the
//! system's account of its process; latencies and rates are wrk's. Ours has a limit, health, metrics and the
//! log on.
//!
//! Gateways of language models accept only their own kind of call, so they have a separate contest. There ours
//! and the direct connection get that call too.

mod contest;
mod gateways;
mod memory;
mod wrk;

use std::net::SocketAddr;

use crate::client::server;
use crate::clock;
use crate::figure::{Figure, Goal};
use crate::measure::Plan;
use crate::proxies::{self, Job, Limits, Peer, Proxy, RequestForm};
use contest::{Contest, ContestSetup, named};
use wrk::Load;

/// Measures the overhead of the sidecar.
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
        return vec![Figure::missing("proxy", "", "missing: wrk is not installed")];
    }
    let mut figures = plain(plan, upstream, ours);
    if plan.is_thorough() {
        figures.extend(gateways::figures());
    }
    figures
}

/// Measures the proxies that forward any call.
fn plain(plan: Plan, upstream: SocketAddr, ours: Proxy) -> Vec<Figure> {
    let mut wanted = Peer::NEAREST.to_vec();
    // A second is a hundred ticks of the system's account, enough for a quick check.
    let (mut rounds, mut load) = (3, Load::with_connections(64).lasting(1));
    if plan.is_thorough() {
        wanted.extend(Peer::FURTHER);
        (rounds, load) = (9, Load::with_connections(64));
    }
    let (peers, missing) = Peer::start_all(&wanted, upstream, Job::Pass);
    let course = ContestSetup {
        upstream,
        ask: RequestForm::Plain,
        load,
    };
    let mut contest = Contest::new(course, ours, peers);
    let idle = contest.resident();
    for round in 0..rounds {
        contest.round(round);
    }
    let mut figures = to_figures(&contest);
    let at_rest = ("proxy_rss_idle_mib", Goal::Own(25.0));
    figures.extend(memory::rows(&contest, at_rest, &idle));
    figures.extend(memory::after_connections(&contest));
    figures.extend(many(upstream, &contest));
    figures.extend(missing.iter().map(|peer| not_here("proxy_cpu_us", *peer)));
    figures
}

/// Returns a row for a peer that is missing.
fn not_here(name: &str, peer: Peer) -> Figure {
    Figure::missing(name, peer.name(), "missing: it does not run here")
}

fn to_figures(contest: &Contest) -> Vec<Figure> {
    let mut figures = vec![Figure::alone("proxy_cpu_us", Goal::Own(25.0), &contest.ours().micros)];
    figures.extend(contest.against(
        "proxy_cpu_us",
        |seen| &seen.micros,
        |peer| match peer {
            "Envoy" => Goal::Ratio(0.5),
            "nginx" => Goal::Ratio(2.0),
            _ => Goal::Shown,
        },
    ));
    let rate = Goal::AtLeast(0.30);
    figures.extend(contest.relative_to_direct("proxy_rps_of_direct", rate, |seen, direct| {
        part(&seen.rate, &direct.rate)
    }));
    figures.extend(contest.peer("Envoy").map(|envoy| {
        let times = part(&contest.ours().rate, &envoy.rate);
        Figure::alone("proxy_rps_of_envoy", Goal::AtLeast(2.0), &times)
    }));
    let added = Goal::Own(25.0);
    figures.extend(contest.relative_to_direct("proxy_added_p50_us", added, |seen, direct| {
        over(&seen.p50_alone, &direct.p50_alone)
    }));
    figures.extend(contest.against(
        "proxy_p99_us",
        |seen| &seen.p99,
        |peer| match peer {
            "HAProxy" => Goal::Ratio(1.3),
            _ => Goal::Shown,
        },
    ));
    figures
}

/// Measures ours with a thousand APIs of a hundred groups each.
fn many(upstream: SocketAddr, contest: &Contest) -> Vec<Figure> {
    let Ok(with_many_apis) = proxies::ours_at(&proxies::many_apis(upstream)) else {
        return vec![Figure::missing("proxy_1k_apis", "", "missing: it does not start")];
    };
    let resident = with_many_apis.resident();
    let (mut many, mut one) = (Vec::new(), Vec::new());
    for _ in 0..3 {
        many.extend(contest.micros_of(&with_many_apis));
        one.extend(contest.first().and_then(|ours| contest.micros_of(ours)));
    }
    let started = with_many_apis.ready_after.as_secs_f64();
    let (many, one) = (named("Outflow, 1,000 APIs", many), named("Outflow, one API", one));
    vec![
        Figure::alone("proxy_1k_apis_start_s", Goal::Own(1.0), &[started]),
        Figure::alone("proxy_1k_apis_rss_mib", Goal::Own(100.0), &[resident]),
        Figure::against("proxy_1k_apis_cpu_us", Goal::Ratio(1.1), &many, &one),
    ]
}

fn part(ours: &[f64], whole: &[f64]) -> Vec<f64> {
    ours.iter().zip(whole).map(|(ours, whole)| ours / whole).collect()
}

fn over(ours: &[f64], base: &[f64]) -> Vec<f64> {
    ours.iter().zip(base).map(|(ours, base)| ours - base).collect()
}
