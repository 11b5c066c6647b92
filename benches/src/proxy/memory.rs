//! Memory of the proxies. Ours has a goal, the others are shown.

use super::contest::Contest;
use super::wrk::{Load, Way};
use crate::figure::{Figure, Goal};
use crate::proxies::{Proxy, RequestForm};

/// Measures right after a thousand connections.
pub(super) fn after_connections(contest: &Contest) -> Vec<Figure> {
    let after = |proxy: &Proxy| {
        // A proxy that answers none of the calls still had the connections.
        let _seen = Load::with_connections(1_000).run(&Way::through(proxy, RequestForm::Plain));
        proxy.resident()
    };
    let resident: Vec<f64> = contest.proxies().iter().map(after).collect();
    rows(contest, ("proxy_rss_1000_mib", Goal::Own(64.0)), &resident)
}

/// Compares the memory of each, ours first, under this name and with this goal.
pub(super) fn rows(contest: &Contest, figure: (&str, Goal), resident: &[f64]) -> Vec<Figure> {
    let (name, goal) = figure;
    let ours = resident.get(..1).unwrap_or_default();
    let peers = contest.proxies().iter().zip(resident).skip(1);
    let peers: Vec<_> = peers
        .map(|(proxy, mib)| (proxy.name, std::slice::from_ref(mib)))
        .collect();
    Figure::with_peers(name, goal, ours, &peers)
}
