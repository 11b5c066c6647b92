//! Gateways of language models, beside ours and the direct way, all asked for a chat completion.
//!
//! They look into every call and answer, which ours does not: what they take more is not all waste.

use super::contest::{Contest, Course};
use super::wrk::Load;
use super::{memory, not_here};
use crate::client::server;
use crate::figure::{Figure, Goal};
use crate::proxies::{self, ANSWER, Ask, Job, Limits, Peer};

/// Processor time, rate and memory.
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
    let course = Course {
        upstream,
        ask: Ask::Chat,
        // A gateway answers some dozens a second, so what is under way when a turn ends, and counts for
        // nobody, has to be little beside what was answered.
        crowd: Load::of(8).lasting(4),
    };
    let mut contest = Contest::new(course, ours, peers);
    // The first turn counts for nobody: a gateway loads half of itself when it is first called.
    for proxy in contest.proxies() {
        contest.micros_of(proxy);
    }
    let warm = contest.resident();
    for round in 0..ROUNDS {
        contest.round(round);
    }
    let mut figures = contest.against("chat_cpu_us", |seen| &seen.micros, |_| Goal::Shown);
    figures.extend(contest.beside("chat_rps", Goal::ShownHigher, |seen, _| seen.rate.clone()));
    figures.extend(memory::rows(&contest, ("chat_rss_mib", Goal::Shown), &warm));
    figures.extend(missing.iter().map(|peer| not_here("chat_cpu_us", *peer)));
    figures
}

/// A median needs three, and two more do for ratios of hundreds.
const ROUNDS: usize = 5;
