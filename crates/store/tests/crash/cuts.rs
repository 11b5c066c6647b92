//! Power cuts: when, and what becomes of the store.

use std::path::Path;

use tempfile::TempDir;

use crate::check::{self, Told};
use crate::disk::{Cut, Disk, Image, lay_out};
use crate::trace::Event;

/// How many of the possible power cuts are tried.
#[derive(Clone, Copy)]
pub(crate) struct Thoroughness {
    /// Every so manieth sync.
    pub(crate) points: usize,
    /// Torn variants of each kind.
    pub(crate) torn: u64,
    /// Every so manieth image is opened under a second power cut.
    pub(crate) second: usize,
}

/// A disk that a power cut left, and what had been told by then.
pub(crate) struct Left {
    pub(crate) image: Image,
    pub(crate) told: Told,
    pub(crate) what: String,
}

/// Makes the images of every power cut during these events. Answers how many syncs there were.
pub(crate) fn cuts(
    (root, before, told): (&Path, &Image, &Told),
    events: &[Event],
    how: Thoroughness,
    mut then: impl FnMut(Left),
) -> usize {
    let mut disk = Disk::holding(root, before);
    let (mut told, mut syncs) = (told.clone(), 0);
    for event in events {
        if let Event::Synced(path) = event
            && path.starts_with(root)
        {
            let cuts = variants(syncs, how);
            for cut in cuts.into_iter().filter(|_| syncs % how.points == 0) {
                then(Left {
                    image: disk.image(root, cut),
                    told: told.clone(),
                    what: format!("sync {syncs}, of {}, {cut:?}", path.display()),
                });
            }
            syncs += 1;
            if path.to_string_lossy().ends_with("-wal") {
                told.synced();
            }
        }
        match event {
            Event::Said(words) => told.hear(words),
            Event::Forgotten(_) => told = told.after_a_cut(),
            _ => {}
        }
        disk.apply(event);
    }
    syncs
}

fn variants(sync: usize, how: Thoroughness) -> Vec<Cut> {
    let seed = u64::try_from(sync).expect("a few") * how.torn;
    let torn = (0..how.torn).flat_map(|more| [Cut::Prefix(seed + more), Cut::Sectors(seed + more)]);
    [Cut::Nothing, Cut::Everything]
        .into_iter()
        .chain(torn)
        .collect()
}

/// Opens what a power cut left, beside it the words for whoever reads of a failure.
pub(crate) fn check(left: &Left) {
    let dir = memory();
    lay_out(&left.image, dir.path());
    let held = std::panic::catch_unwind(|| check::holds(&dir.path().join(STORE), &left.told));
    if held.is_err() {
        let kept = dir.keep();
        panic!("a power cut before {}: {}", left.what, kept.display());
    }
}

/// Where the store is: two directories that it makes itself.
pub(crate) const STORE: &str = "new/jobs";

/// A directory in memory, where there is such a thing: thousands of stores are opened in them, and no
/// power fails.
pub(crate) fn memory() -> TempDir {
    tempfile::tempdir_in("/dev/shm")
        .or_else(|_| tempfile::tempdir())
        .expect("a directory")
}
