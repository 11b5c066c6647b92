//! Gateways of language models, compared with ours and the direct connection, all with a chat completion.
//!
//! They parse every call and response, which ours does not: their additional cost is not all waste.

use super::contest::{Contest, ContestSetup};
use super::wrk::Load;
use super::{memory, not_here};
use crate::client::server;
use crate::figure::{Figure, Goal};
use crate::proxies::{self, ANSWER, Job, Limits, Peer, RequestForm};

/// Measures processor time, rate and memory.
pub(super) fn figures() -> Vec<Figure> {
    let started = server::start_json(ANSWER).and_then(|upstream| {
        let ours = proxies::ours(upstream, Limits::OutOfReach)?;
        Ok((upstream, ours))
    });
    let (upstream, ours) = match started {
        Ok(started) => started,
        Err(why) => return vec![Figure::missing("chat", "", &format!("missing: {why}"))],
    };
    let (peers, missing) = Peer::start_all(&Peer::GATEWAYS, upstream, Job::Pass);
    let course = ContestSetup {
        upstream,
        ask: RequestForm::Chat,
        // A gateway answers some dozens a second. Calls in flight at the end of a turn do not count, so they
        // must be few compared with the answered ones.
        load: Load::with_connections(8).lasting(4),
    };
    let mut contest = Contest::new(course, ours, peers);
    // The first turn does not count: a gateway loads half of its code on the first call.
    for proxy in contest.proxies() {
        contest.micros_of(proxy);
    }
    let warm = contest.resident();
    for round in 0..ROUNDS {
        contest.round(round);
    }
    let mut figures = contest.against("chat_cpu_us", |seen| &seen.micros, |_| Goal::Shown);
    figures.extend(contest.relative_to_direct("chat_rps", Goal::ShownHigher, |seen, _| seen.rate.clone()));
    figures.extend(memory::rows(&contest, ("chat_rss_mib", Goal::Shown), &warm));
    figures.extend(missing.iter().map(|peer| not_here("chat_cpu_us", *peer)));
    figures
}

/// A median needs three, and two more suffice for ratios of hundreds.
const ROUNDS: usize = 5;
