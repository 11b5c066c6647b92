//! A strict server: it counts arrivals, keeps them all, and returns its number of refusals.

/// Rule of the server.
#[derive(Debug, Clone, Copy)]
pub enum Rule {
    /// At most `quantity` in any window.
    Sliding { quantity: u64, window: u64 },
    /// At most `quantity` in each window that begins at a multiple of its length.
    Aligned { quantity: u64, window: u64 },
    /// At most `quantity` in each window that begins with an arrival outside the one before.
    FromFirst { quantity: u64, window: u64 },
    /// A bucket of `burst`, refilled by `quantity` per `per`.
    Bucket { quantity: u64, per: u64, burst: u64 },
}

/// Returns the number of (arrival, cost) pairs that a server with this rule refuses. A refused
/// request counts against nothing.
pub fn refusals(rule: Rule, arrivals: &[(u64, u64)]) -> usize {
    let mut sorted = arrivals.to_vec();
    sorted.sort_unstable();
    let mut accepted: Vec<(u64, u64)> = Vec::new();
    sorted
        .into_iter()
        .filter(|&arrival| !accept(rule, &mut accepted, arrival))
        .count()
}

fn accept(rule: Rule, accepted: &mut Vec<(u64, u64)>, (time, cost): (u64, u64)) -> bool {
    let sum = |from: u64| -> u64 { accepted.iter().filter(|a| a.0 >= from).map(|a| a.1).sum() };
    let fits = match rule {
        Rule::Sliding { quantity, window } => {
            let live = accepted.iter().filter(|a| time - a.0 < window);
            live.map(|a| a.1).sum::<u64>() + cost <= quantity
        }
        Rule::Aligned { quantity, window } => sum(time - time % window) + cost <= quantity,
        Rule::FromFirst { quantity, window } => {
            let mut start = None;
            for &(t, _) in &*accepted {
                if start.is_none_or(|s| t - s >= window) {
                    start = Some(t);
                }
            }
            let start = start.filter(|s| time - s < window).unwrap_or(time);
            sum(start) + cost <= quantity
        }
        Rule::Bucket { quantity, per, burst } => {
            let mut oracle = super::bucket::BucketOracle::new(quantity, per, burst);
            oracle.entries = accepted.iter().map(|a| (a.0, a.1, false)).collect();
            oracle.entries.push((time, cost, false));
            oracle.level(time).is_some()
        }
    };
    if fits {
        accepted.push((time, cost));
    }
    fits
}
