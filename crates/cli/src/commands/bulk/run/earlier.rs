//! What an earlier sitting may have used of the limits, waited out.
//!
//! How full a window is was known to the process that filled it, and is gone with it. A run that goes on
//! at once would fill it a second time and be refused for it. So it waits until the windows are over that
//! the last sitting can have used: those of up to a minute. Longer ones it leaves to the API, which says
//! when it has had enough.

use std::path::Path;
use std::time::{Duration, SystemTime};

use outflow::{Config, SystemClock};
use outflow_core::{Clock, Rate, WallTime};

use crate::terminal::{say, spoken};

/// Waits until nothing counts any more that was sent by whoever wrote to this directory last.
pub(super) async fn wait_out(jobs: &Path, config: &Config) {
    let Some(last) = last_written(jobs) else {
        return;
    };
    let over = last.saturating_add(longest_window(config));
    let left = over.since(SystemClock::new().wall());
    if !left.is_zero() {
        say!(
            "waiting {} for what was sent before to be over",
            spoken(left)
        );
        tokio::time::sleep(left).await;
    }
}

/// Every job that is begun is written down first, so nothing was sent after this.
fn last_written(jobs: &Path) -> Option<WallTime> {
    let files = std::fs::read_dir(jobs).ok()?.filter_map(Result::ok);
    let written = files.filter_map(|file| file.metadata().ok()?.modified().ok());
    let since = written.max()?.duration_since(SystemTime::UNIX_EPOCH).ok()?;
    Some(WallTime::since_epoch(since))
}

fn longest_window(config: &Config) -> Duration {
    let tenants = config.bulk.tenants.values().chain([&config.bulk.tenant]);
    let own = tenants.filter_map(|tenant| tenant.rate);
    let rules = config.apis.iter().map(|api| &api.rules);
    let limits = rules.flat_map(|rules| {
        let groups = rules.groups.iter().flat_map(|group| group.limits.iter());
        rules.limits.iter().chain(groups)
    });
    let windows = own
        .chain(limits.map(outflow_core::Limit::rate))
        .map(Rate::per);
    windows
        .filter(|per| *per <= A_MINUTE)
        .max()
        .unwrap_or_default()
}

/// As long as somebody waits who has just typed a command.
const A_MINUTE: Duration = Duration::from_mins(1);

#[cfg(test)]
mod tests {
    use outflow::config::{Environment, Source};

    use super::*;

    // An hour is left to the API, and ten seconds are the longest of the rest.
    #[test]
    fn the_longest_window_that_is_worth_waiting_for_counts() {
        let text = "[apis.up]\nbase_url = \"http://127.0.0.1:9\"\nlimits = [\"5/s\", \"100/h\"]\n\
                    groups.slow.limits = [\"20/10s\"]\n[bulk.tenant]\nrate = \"2/s\"\n";
        let config = Config::read(&[Source::new("test", text)], &Environment::empty());
        let config = config.expect("a configuration");
        assert_eq!(longest_window(&config), Duration::from_secs(10));
    }

    #[test]
    fn a_directory_that_is_not_there_was_never_written() {
        assert_eq!(last_written(Path::new("/no/such/directory")), None);
    }
}
