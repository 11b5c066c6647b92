//! Power cuts: when, and what becomes of the store.

use std::path::Path;

use tempfile::TempDir;

use super::check::{self, Told};
use super::disk_model::{Cut, Disk, Image, lay_out};
use super::strace::Event;

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

/// Moments at which the power was cut.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Moments {
    /// Before a sync.
    pub(crate) syncs: usize,
    /// After an answer that promised something.
    pub(crate) answers: usize,
}

/// Makes the images of every power cut during these events.
pub(crate) fn cuts(
    (root, before, told): (&Path, &Image, &Told),
    events: &[Event],
    how: Thoroughness,
    mut then: impl FnMut(Left),
) -> Moments {
    let mut disk = Disk::holding(root, before);
    let (mut told, mut seen) = (told.clone(), Moments::default());
    let mut cut = |disk: &Disk, told: &Told, cut, what: String| {
        then(Left {
            image: disk.image(root, cut),
            told: told.clone(),
            what: format!("{what}, {cut:?}"),
        });
    };
    for event in events {
        if let Event::Synced(path) = event
            && path.starts_with(root)
        {
            let variants = variants(seen.syncs, how).into_iter();
            let tried = seen.syncs < MAKING || seen.syncs % how.points == 0;
            for variant in variants.filter(|_| tried) {
                let what = format!("sync {} of {}", seen.syncs, path.display());
                cut(&disk, &told, variant, what);
            }
            seen.syncs += 1;
        }
        told.learn(event);
        disk.apply(event);
        if let Event::Said(words) = event
            && !Told::is_late(words)
        {
            // What is promised rests on what was synced alone.
            if seen.answers % how.points == 0 {
                cut(
                    &disk,
                    &told,
                    Cut::Nothing,
                    format!("what came after {words}"),
                );
            }
            seen.answers += 1;
        }
    }
    seen
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

/// The syncs by which a store is made, all of which are tried: directories, database, journal, seal.
const MAKING: usize = 16;

/// Where the store is: two directories that it makes itself.
pub(crate) const STORE: &str = "new/jobs";

/// A directory in memory, where there is such a thing: thousands of stores are opened in them, and no
/// power fails.
pub(crate) fn memory() -> TempDir {
    tempfile::tempdir_in("/dev/shm")
        .or_else(|_| tempfile::tempdir())
        .expect("a directory")
}
