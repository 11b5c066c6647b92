//! What the proxies hold of the memory. Ours is judged, the others are shown.

use super::contest::Contest;
use super::wrk::{Load, Way};
use crate::figure::{Figure, Goal};
use crate::proxies::{Ask, Proxy};

/// Right after a thousand connections.
pub(super) fn crowded(contest: &Contest) -> Vec<Figure> {
    let after = |proxy: &Proxy| {
        // One that answers none of them has had the connections all the same.
        let _seen = Load::of(1_000).run(&Way::through(proxy, Ask::Plain));
        proxy.resident()
    };
    let resident: Vec<f64> = contest.proxies().iter().map(after).collect();
    rows(contest, ("proxy_rss_1000_mib", Goal::Own(64.0)), &resident)
}

/// What each of them held, ours first, under this name and for this goal.
pub(super) fn rows(contest: &Contest, figure: (&str, Goal), resident: &[f64]) -> Vec<Figure> {
    let (name, goal) = figure;
    let ours = resident.get(..1).unwrap_or_default();
    let peers = contest.proxies().iter().zip(resident).skip(1);
    let peers: Vec<_> = peers
        .map(|(proxy, mib)| (proxy.name, std::slice::from_ref(mib)))
        .collect();
    Figure::beside(name, goal, ours, &peers)
}
