//! Power cuts: their moments, and the resulting images.

use std::path::Path;

use tempfile::TempDir;

use super::check::{self, Told};
use super::disk_model::{Cut, Disk, Image, lay_out};
use super::strace::Event;

/// Selection of the possible power cuts.
#[derive(Clone, Copy)]
pub(crate) struct Thoroughness {
    /// Interval of the tested syncs.
    pub(crate) points: usize,
    /// Torn variants of each kind.
    pub(crate) torn: u64,
    /// Interval of the images that are opened under a second power cut.
    pub(crate) second: usize,
}

/// Image after a power cut, and the results reported by then.
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
    /// After a result that promised durability.
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
            // A promise rests on synced data alone.
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

/// Opens an image, and prints its description if that fails.
pub(crate) fn check(left: &Left) {
    let dir = memory();
    lay_out(&left.image, dir.path());
    let held = std::panic::catch_unwind(|| check::holds(&dir.path().join(STORE), &left.told));
    if held.is_err() {
        let kept = dir.keep();
        panic!("a power cut before {}: {}", left.what, kept.display());
    }
}

/// Number of syncs that create a store, all of which are tested: directories, database, journal,
/// identity file.
const MAKING: usize = 16;

/// Path of the store: two directories that it creates itself.
pub(crate) const STORE: &str = "new/jobs";

/// Makes a directory in memory, if the system has one: thousands of stores are opened there, and no
/// power fails.
pub(crate) fn memory() -> TempDir {
    tempfile::tempdir_in("/dev/shm")
        .or_else(|_| tempfile::tempdir())
        .expect("a directory")
}
