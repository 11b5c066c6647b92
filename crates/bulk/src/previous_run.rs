//! Limits that an earlier process may have used.
//!
//! Only the process that filled a window knew its use. A new process that starts at once would fill it a
//! second time and be throttled. Jobs therefore wait until the windows of the last process are over, up to a
//! minute. Longer windows are left to the API, which throttles by itself.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, SystemTime};

use outflow::Api;
use outflow_core::{Limit, Rate, WallTime};

use crate::config::BulkConfig;
use crate::config::location::StoreLocation;

/// Last write to a job directory. Read it before the directory is opened, since opening writes there, too.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PreviousRun(Option<WallTime>);

impl PreviousRun {
    /// Reads the last write of a location. A Redis server tracks used limits itself.
    pub fn from_location(location: &StoreLocation) -> Self {
        Self(match location {
            StoreLocation::Dir(dir) => last_written(dir),
            StoreLocation::Server(_) => None,
        })
    }

    /// Returns, by API, the instant after which earlier calls no longer count.
    pub fn over_by(self, apis: &[Api], section: &BulkConfig) -> BTreeMap<String, WallTime> {
        let Some(last) = self.0 else {
            return BTreeMap::new();
        };
        let own = own_window(section);
        let end = |api: &Api| last.saturating_add(window(api).max(own));
        apis.iter().map(|api| (api.name.to_string(), end(api))).collect()
    }

    /// Returns the instant after which earlier calls of all APIs no longer count.
    pub fn all_over_by(self, apis: &[Api], section: &BulkConfig) -> Option<WallTime> {
        self.over_by(apis, section).into_values().max()
    }
}

/// Returns the last write. The store records every start first, so no call was sent later.
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

/// Returns the longest window of the tenants' own limits.
fn own_window(section: &BulkConfig) -> Duration {
    let tenants = section.engine.tenants.values().chain([&section.engine.tenant]);
    longest(tenants.filter_map(|tenant| tenant.rate))
}

fn longest(rates: impl Iterator<Item = Rate>) -> Duration {
    let windows = rates.map(Rate::per).filter(|per| *per <= MAX_WAIT);
    windows.max().unwrap_or_default()
}

/// Longest acceptable wait after a command.
const MAX_WAIT: Duration = Duration::from_mins(1);

#[cfg(test)]
mod tests {
    use outflow::Config;
    use outflow::config::{Environment, Source, load};

    use super::*;

    // An hour is left to the API, and ten seconds are the longest of the other windows. The second API has no
    // limit, and two seconds are the longest window of a tenant.
    #[test]
    fn the_longest_window_up_to_a_minute_counts() {
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
    fn a_missing_directory_has_no_last_write() {
        let nowhere = StoreLocation::Dir("/no/such/directory".into());
        assert_eq!(PreviousRun::from_location(&nowhere), PreviousRun(None));
    }
}
