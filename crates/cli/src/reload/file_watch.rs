//! Triggers of a reload: SIGHUP, or a change of a file.
//!
//! Editors and deployments replace a file instead of writing into it, and a watch on the file would stay with
//! the old one. The program watches the directory and compares contents before it reloads, since other files
//! change there, too.

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

/// Reloads the configuration on every SIGHUP.
pub(crate) fn on_hangup(state: &Arc<AppState>) -> Result<(), SpawnError> {
    // From here on the signal does not end the process, even before the task starts.
    let _registered = signal(SignalKind::hangup());
    let shared = Arc::clone(state);
    state.tasks().spawn("reload on SIGHUP", move |stop| {
        let state = Arc::clone(&shared);
        async move {
            let Ok(mut hangups) = signal(SignalKind::hangup()) else {
                return;
            };
            loop {
                tokio::select! {
                    () = stop.cancelled() => return,
                    received = hangups.recv() => match received {
                        Some(()) => reload(&state),
                        None => return,
                    }
                }
            }
        }
    })
}

/// Reloads the configuration when one of its files changed.
pub(crate) fn on_change(state: &Arc<AppState>) -> Result<(), SpawnError> {
    let shared = Arc::clone(state);
    state
        .tasks()
        .spawn("watch files", move |stop| watch(Arc::clone(&shared), stop))
}

async fn watch(state: Arc<AppState>, stop: CancelToken) {
    let changed = Arc::new(Notify::new());
    let mut known = FileDigests::from_files(files(&state));
    loop {
        // Recreated after each change: the configuration may name other files now.
        let _watcher = match watcher(known.files(), Arc::clone(&changed)) {
            Ok(watcher) => watcher,
            Err(error) => {
                say!("outflow: files are not watched, send SIGHUP instead: {error}");
                return;
            }
        };
        // Checked first: a file may have changed before this watch existed.
        while !known.update() {
            tokio::select! {
                () = stop.cancelled() => return,
                () = changed.notified() => {}
            }
            // A fixed delay, not a wait for silence: a log in this directory may change all the time.
            tokio::time::sleep(SETTLE).await;
        }
        reload(&state);
        known.replace_files(files(&state));
    }
}

/// Returns the files of the configuration and the files that it names: a replaced key file is a change, too.
fn files(state: &AppState) -> BTreeSet<PathBuf> {
    let config = state.config();
    let trusted = config.client.apis.iter().filter_map(|api| match &api.trust {
        TlsTrust::File(path) => Some(path.clone()),
        _ => None,
    });
    let written = state.sources().files().map(Path::to_owned);
    let named = config.client.files.iter().cloned();
    written.chain(named).chain(trusted).collect()
}

/// Digests of the last contents of files. Contents may be large, or secrets that need no copy.
struct FileDigests(BTreeMap<PathBuf, Option<u64>>);

impl FileDigests {
    fn from_files(files: BTreeSet<PathBuf>) -> Self {
        let digests = files.into_iter().map(|file| {
            let content = std::fs::read(&file).ok();
            (file, content.map(|bytes| digest(&bytes)))
        });
        Self(digests.collect())
    }

    fn files(&self) -> impl Iterator<Item = &Path> {
        self.0.keys().map(PathBuf::as_path)
    }

    /// Updates the digests, and returns true if one changed.
    fn update(&mut self) -> bool {
        let now = Self::from_files(self.0.keys().cloned().collect());
        let changed = self.0 != now.0;
        *self = now;
        changed
    }

    /// Drops all files but these, and adds the digests of new ones.
    fn replace_files(&mut self, files: BTreeSet<PathBuf>) {
        self.0.retain(|file, _| files.contains(file));
        let new = files.into_iter().filter(|file| !self.0.contains_key(file));
        let new = Self::from_files(new.collect());
        self.0.extend(new.0);
    }
}

fn watcher<'a>(files: impl Iterator<Item = &'a Path>, changed: Arc<Notify>) -> notify::Result<RecommendedWatcher> {
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

/// Ignores reads: the program's own reads would trigger it endlessly.
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

/// Reloads, and prints the result to the terminal or the journal.
fn reload(state: &AppState) {
    match state.reload() {
        Ok(changes) => say!("outflow: configuration reloaded: {changes}"),
        Err(why) => say!("outflow: the previous configuration stays in effect:\n{why}"),
    }
}

/// Long enough to join the events of one save, short enough to go unnoticed.
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
