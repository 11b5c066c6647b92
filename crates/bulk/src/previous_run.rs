//! What an earlier process may have used of the limits, waited out.
//!
//! How full a window is was known to the process that filled it, and is gone with it. Whoever goes on at
//! once would fill it a second time and be refused for it. So jobs wait until the windows are over that
//! the last process can have used: those of up to a minute. Longer ones are left to the API, which says
//! when it has had enough.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, SystemTime};

use outflow::Api;
use outflow_core::{Limit, Rate, WallTime};

use crate::config::BulkConfig;
use crate::config::location::StoreLocation;

/// When a directory of jobs was last written to. It has to be asked before the directory is opened, which
/// writes there too.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PreviousRun(Option<WallTime>);

impl PreviousRun {
    /// Of the jobs that are kept there. A server remembers itself what was used.
    pub fn from_location(place: &StoreLocation) -> Self {
        Self(match place {
            StoreLocation::Dir(dir) => last_written(dir),
            StoreLocation::Server(_) => None,
        })
    }

    /// From when on nothing counts any more that was sent before, by API.
    pub fn over_by(self, apis: &[Api], section: &BulkConfig) -> BTreeMap<String, WallTime> {
        let Some(last) = self.0 else {
            return BTreeMap::new();
        };
        let own = own_window(section);
        let over = |api: &Api| last.saturating_add(window(api).max(own));
        apis.iter()
            .map(|api| (api.name.to_string(), over(api)))
            .collect()
    }

    /// The same for all of them together.
    pub fn all_over_by(self, apis: &[Api], section: &BulkConfig) -> Option<WallTime> {
        self.over_by(apis, section).into_values().max()
    }
}

/// Every job that is begun is written down first, so nothing was sent after this.
fn last_written(jobs: &Path) -> Option<WallTime> {
    let files = std::fs::read_dir(jobs).ok()?.filter_map(Result::ok);
    let written = files.filter_map(|file| file.metadata().ok()?.modified().ok());
    let since = written.max()?.duration_since(SystemTime::UNIX_EPOCH).ok()?;
    Some(WallTime::since_epoch(since))
}

fn window(api: &Api) -> Duration {
    let groups = api.rules.groups.iter();
    let groups = groups.flat_map(|group| group.limits.iter());
    longest(api.rules.limits.iter().chain(groups).map(Limit::rate))
}

/// What tenants may use at most, of all APIs together.
fn own_window(section: &BulkConfig) -> Duration {
    let tenants = section.tenants.values().chain([&section.tenant]);
    longest(tenants.filter_map(|tenant| tenant.rate))
}

fn longest(rates: impl Iterator<Item = Rate>) -> Duration {
    let windows = rates.map(Rate::per).filter(|per| *per <= A_MINUTE);
    windows.max().unwrap_or_default()
}

/// As long as somebody waits who has just typed a command.
const A_MINUTE: Duration = Duration::from_mins(1);

#[cfg(test)]
mod tests {
    use outflow::Config;
    use outflow::config::{Environment, Source, load};

    use super::*;

    // An hour is left to the API, and ten seconds are the longest of the rest. The other API has no limit
    // of its own, and two seconds are the longest that a tenant has.
    #[test]
    fn the_longest_window_that_is_worth_waiting_for_counts() {
        let text = "[apis.up]\nbase_url = \"http://127.0.0.1:9\"\nlimits = [\"5/s\", \"100/h\"]\n\
                    groups.slow.limits = [\"20/10s\"]\n\
                    [apis.free]\nbase_url = \"http://127.0.0.1:9\"\n\
                    [bulk.tenant]\nrate = \"2/2s\"\n";
        let environment = Environment::empty();
        let document = load(&[Source::new("test", text)], &environment);
        let apis = Config::read_sections(&document, &environment).apis;
        let bulk: BulkConfig = document.read(&environment);
        let at = |secs| WallTime::since_epoch(Duration::from_secs(secs));
        let over = PreviousRun(Some(at(100))).over_by(&apis, &bulk);
        assert_eq!(over.get("up"), Some(&at(110)));
        assert_eq!(over.get("free"), Some(&at(102)));
        assert_eq!(PreviousRun(None).all_over_by(&apis, &bulk), None);
    }

    #[test]
    fn a_directory_that_is_not_there_was_never_written() {
        let nowhere = StoreLocation::Dir("/no/such/directory".into());
        assert_eq!(PreviousRun::from_location(&nowhere), PreviousRun(None));
    }
}
