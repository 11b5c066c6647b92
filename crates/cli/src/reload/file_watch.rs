//! What has the configuration read again: a signal, or a file that changed.
//!
//! Editors and deployments do not write into a file, they put another one in its place, and a watch on
//! the file would stay with the old one. So its directory is watched, and since much else may happen
//! there, what the files hold is compared before anything is reloaded.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hasher as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use notify::event::{AccessKind, AccessMode, EventKind};
use notify::{RecommendedWatcher, RecursiveMode, Watcher};
use outflow::{CancelToken, SpawnError, TlsTrust};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Notify;

use crate::app_state::AppState;
use crate::terminal::say;

/// Reads the configuration again with every SIGHUP.
pub(crate) fn on_hangup(station: &Arc<AppState>) -> Result<(), SpawnError> {
    // From here on the signal does not end the process, also before the task below has begun.
    let _heard = signal(SignalKind::hangup());
    let shared = Arc::clone(station);
    station.tasks().spawn("reload on SIGHUP", move |stop| {
        let station = Arc::clone(&shared);
        async move {
            let Ok(mut hangups) = signal(SignalKind::hangup()) else {
                return;
            };
            loop {
                tokio::select! {
                    () = stop.cancelled() => return,
                    heard = hangups.recv() => match heard {
                        Some(()) => reload(&station),
                        None => return,
                    }
                }
            }
        }
    })
}

/// Reads the configuration again when one of its files changed.
pub(crate) fn on_change(station: &Arc<AppState>) -> Result<(), SpawnError> {
    let shared = Arc::clone(station);
    station
        .tasks()
        .spawn("watch files", move |stop| watch(Arc::clone(&shared), stop))
}

async fn watch(station: Arc<AppState>, stop: CancelToken) {
    let changed = Arc::new(Notify::new());
    let mut known = FileDigests::from_files(files(&station));
    loop {
        // Made anew after each change: the configuration may name other files now.
        let _watcher = match watcher(known.files(), Arc::clone(&changed)) {
            Ok(watcher) => watcher,
            Err(error) => {
                say!("outflow: files are not watched, send SIGHUP instead: {error}");
                return;
            }
        };
        // Looked at first: something may have changed before this watch was there.
        while !known.changed() {
            tokio::select! {
                () = stop.cancelled() => return,
                () = changed.notified() => {}
            }
            // Not until it is quiet: a log in the same directory may never be.
            tokio::time::sleep(SETTLE).await;
        }
        reload(&station);
        known.go_on_with(files(&station));
    }
}

/// The files of the configuration, and those that it names: a key that is replaced is a change too.
fn files(station: &AppState) -> BTreeSet<PathBuf> {
    let config = station.config();
    let trusted = config
        .client
        .apis
        .iter()
        .filter_map(|api| match &api.trust {
            TlsTrust::File(path) => Some(path.clone()),
            _ => None,
        });
    let written = station.sources().files().map(Path::to_owned);
    let named = config.client.files.iter().cloned();
    written.chain(named).chain(trusted).collect()
}

/// What files held when they were looked at last: a digest of it, for it may be megabytes, or a secret of
/// which there need be no other copy.
struct FileDigests(BTreeMap<PathBuf, Option<u64>>);

impl FileDigests {
    fn from_files(files: BTreeSet<PathBuf>) -> Self {
        let held = files.into_iter().map(|file| {
            let held = std::fs::read(&file).ok().map(|bytes| digest(&bytes));
            (file, held)
        });
        Self(held.collect())
    }

    fn files(&self) -> impl Iterator<Item = &Path> {
        self.0.keys().map(PathBuf::as_path)
    }

    /// Looks again, and says whether any is different.
    fn changed(&mut self) -> bool {
        let now = Self::from_files(self.0.keys().cloned().collect());
        let changed = self.0 != now.0;
        *self = now;
        changed
    }

    /// Forgets what is not among these files, and looks at those that are new.
    fn go_on_with(&mut self, files: BTreeSet<PathBuf>) {
        self.0.retain(|file, _| files.contains(file));
        let new = files.into_iter().filter(|file| !self.0.contains_key(file));
        let new = Self::from_files(new.collect());
        self.0.extend(new.0);
    }
}

fn watcher<'a>(
    files: impl Iterator<Item = &'a Path>,
    changed: Arc<Notify>,
) -> notify::Result<RecommendedWatcher> {
    let mut watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
        if event.is_ok_and(|event| is_change(event.kind)) {
            changed.notify_one();
        }
    })?;
    let directories: BTreeSet<&Path> = files.map(directory).collect();
    for directory in directories {
        watcher.watch(directory, RecursiveMode::NonRecursive)?;
    }
    Ok(watcher)
}

/// Reading is no change: otherwise our own reading would wake us for ever.
const fn is_change(kind: EventKind) -> bool {
    match kind {
        EventKind::Access(AccessKind::Close(AccessMode::Write)) => true,
        EventKind::Access(_) => false,
        _ => true,
    }
}

fn directory(file: &Path) -> &Path {
    match file.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

fn digest(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(bytes);
    hasher.finish()
}

/// The one who edits the file looks at the terminal or the journal.
fn reload(station: &AppState) {
    match station.reload() {
        Ok(changes) => say!("outflow: configuration read again: {changes}"),
        Err(why) => say!("outflow: the configuration before stays in effect:\n{why}"),
    }
}

/// Long enough that one saving is one reload, short enough that nobody waits for it.
const SETTLE: Duration = Duration::from_millis(150);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_a_directory_is_in_this_one() {
        assert_eq!(directory(Path::new("outflow.toml")), Path::new("."));
        assert_eq!(directory(Path::new("/etc/a.toml")), Path::new("/etc"));
    }

    #[test]
    fn reading_is_no_change() {
        let opened = EventKind::Access(AccessKind::Open(AccessMode::Read));
        let written = EventKind::Access(AccessKind::Close(AccessMode::Write));
        assert_eq!((is_change(opened), is_change(written)), (false, true));
    }
}
