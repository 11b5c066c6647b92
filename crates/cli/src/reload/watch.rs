//! What has the configuration read again: a signal, or a file that changed.
//!
//! Editors and deployments do not write into a file, they put another one in its place, and a watch on
//! the file would stay with the old one. So its directory is watched, and since much else may happen
//! there, what the files hold is compared before anything is reloaded.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hasher as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use notify::event::{AccessKind, AccessMode, EventKind};
use notify::{RecommendedWatcher, RecursiveMode, Watcher};
use outflow::{CannotStart, Stop};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Notify;

use crate::station::Station;

/// Reads the configuration again with every SIGHUP.
pub(crate) fn on_hangup(station: &Arc<Station>) -> Result<(), CannotStart> {
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
                    () = stop.told() => return,
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
pub(crate) fn on_change(station: &Arc<Station>) -> Result<(), CannotStart> {
    let shared = Arc::clone(station);
    station
        .tasks()
        .spawn("watch files", move |stop| watch(Arc::clone(&shared), stop))
}

async fn watch(station: Arc<Station>, stop: Stop) {
    let files: Vec<PathBuf> = station.sources().files().map(Path::to_owned).collect();
    let changed = Arc::new(Notify::new());
    let mut known = digests(&files);
    let _watcher = match watcher(&files, Arc::clone(&changed)) {
        Ok(watcher) => watcher,
        Err(error) => {
            eprintln!("outflow: files are not watched, send SIGHUP instead: {error}");
            return;
        }
    };
    loop {
        tokio::select! {
            () = stop.told() => return,
            () = changed.notified() => {}
        }
        // Not until it is quiet: a log in the same directory may never be.
        tokio::time::sleep(SETTLE).await;
        let now = digests(&files);
        if now != known {
            known = now;
            reload(&station);
        }
    }
}

fn watcher(files: &[PathBuf], changed: Arc<Notify>) -> notify::Result<RecommendedWatcher> {
    let mut watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
        if event.is_ok_and(|event| is_change(event.kind)) {
            changed.notify_one();
        }
    })?;
    let directories: BTreeSet<&Path> = files.iter().map(|file| directory(file)).collect();
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

/// What tells a change of each file: a digest of what it holds, for that may be megabytes.
fn digests(files: &[PathBuf]) -> Vec<Option<u64>> {
    let digest = |file: &PathBuf| {
        let mut hasher = DefaultHasher::new();
        hasher.write(&std::fs::read(file).ok()?);
        Some(hasher.finish())
    };
    files.iter().map(digest).collect()
}

/// The one who edits the file looks at the terminal or the journal.
fn reload(station: &Station) {
    match station.reload() {
        Ok(changes) => eprintln!("outflow: configuration read again: {changes}"),
        Err(why) => eprintln!("outflow: the configuration before stays in effect:\n{why}"),
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
