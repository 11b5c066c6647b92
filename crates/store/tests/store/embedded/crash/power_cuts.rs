//! Power cuts: their moments, and the resulting images.

use std::path::Path;

use tempfile::TempDir;

use super::check::{self, ReportedResults};
use super::disk_model::{Cut, Disk, Image, write_image};
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
pub(crate) struct CutImage {
    pub(crate) image: Image,
    pub(crate) reported: ReportedResults,
    pub(crate) what: String,
}

/// Moments at which the power was cut.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CutMoments {
    /// Before a sync.
    pub(crate) syncs: usize,
    /// After a result that promised durability.
    pub(crate) answers: usize,
}

/// Makes the images of every power cut during these events.
pub(crate) fn cut_power(
    (root, before, reported): (&Path, &Image, &ReportedResults),
    events: &[Event],
    how: Thoroughness,
    mut then: impl FnMut(CutImage),
) -> CutMoments {
    let mut disk = Disk::holding(root, before);
    let (mut reported, mut seen) = (reported.clone(), CutMoments::default());
    let mut cut = |disk: &Disk, reported: &ReportedResults, cut, what: String| {
        then(CutImage {
            image: disk.image(root, cut),
            reported: reported.clone(),
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
                cut(&disk, &reported, variant, what);
            }
            seen.syncs += 1;
        }
        reported.record(event);
        disk.apply(event);
        if let Event::Said(words) = event
            && !ReportedResults::is_late(words)
        {
            // A promise rests on synced data alone.
            if seen.answers % how.points == 0 {
                cut(&disk, &reported, Cut::Nothing, format!("what came after {words}"));
            }
            seen.answers += 1;
        }
    }
    seen
}

fn variants(sync: usize, how: Thoroughness) -> Vec<Cut> {
    let seed = u64::try_from(sync).expect("a few") * how.torn;
    let torn = (0..how.torn).flat_map(|more| [Cut::Prefix(seed + more), Cut::Sectors(seed + more)]);
    [Cut::Nothing, Cut::Everything].into_iter().chain(torn).collect()
}

/// Opens an image, and prints its description if that fails.
pub(crate) fn check(left: &CutImage) {
    let dir = memory_dir();
    write_image(&left.image, dir.path());
    let held = std::panic::catch_unwind(|| check::assert_image(&dir.path().join(STORE), &left.reported));
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
pub(crate) fn memory_dir() -> TempDir {
    tempfile::tempdir_in("/dev/shm")
        .or_else(|_| tempfile::tempdir())
        .expect("a directory")
}
