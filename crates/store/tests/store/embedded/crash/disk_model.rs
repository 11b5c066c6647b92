//! Model of a disk and its images after a power cut.
//!
//! Synced data is there. Unsynced data may be there, or not, or in part: in the requested order up
//! to some point, or any sectors in no order. A name is a change of its directory, and is safe only
//! when that was synced, even if common file systems promise more.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use super::strace::Event;

/// Contents of a disk under one directory, and its unsynced writes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Disk {
    safe: Names,
    /// View of the program.
    seen: Names,
    changes: Vec<NameChange>,
    files: Vec<File>,
    clock: usize,
}

/// Files by path, and existing directories.
#[derive(Clone, Debug, Default)]
struct Names {
    files: BTreeMap<PathBuf, usize>,
    dirs: BTreeSet<PathBuf>,
}

#[derive(Clone, Debug)]
struct NameChange {
    when: usize,
    path: PathBuf,
    to: Named,
}

#[derive(Clone, Copy, Debug)]
enum Named {
    File(usize),
    Dir,
    Nothing,
}

#[derive(Clone, Debug, Default)]
struct File {
    safe: Vec<u8>,
    coming: Vec<(usize, Change)>,
}

#[derive(Clone, Debug)]
enum Change {
    Write(usize, Vec<u8>),
    Cut(usize),
}

/// Effect of the power cut on unsynced data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Cut {
    /// None of it is there.
    Nothing,
    /// All of it is there.
    Everything,
    /// All up to some point, where a write is torn between two sectors.
    Prefix(u64),
    /// Some sectors, some names, in no order.
    Sectors(u64),
}

/// Contents of a directory after a power cut.
pub(crate) type Image = BTreeMap<PathBuf, Vec<u8>>;

impl Disk {
    /// Makes a disk whose root, with these files in it, is safe.
    pub(crate) fn holding(root: &Path, image: &Image) -> Self {
        let mut disk = Self::default();
        for dir in root.ancestors() {
            disk.safe.dirs.insert(dir.to_owned());
        }
        for (path, bytes) in image {
            let path = root.join(path);
            let dirs = path.ancestors().skip(1).map(Path::to_owned);
            disk.safe.dirs.extend(dirs);
            disk.safe.files.insert(path, disk.files.len());
            disk.files.push(File {
                safe: bytes.clone(),
                coming: Vec::new(),
            });
        }
        disk.seen = disk.safe.clone();
        disk
    }

    /// Applies an event under the root.
    pub(crate) fn apply(&mut self, event: &Event) {
        self.clock += 1;
        match event {
            Event::Made(path) if !self.seen.files.contains_key(path) => {
                self.files.push(File::default());
                self.rename(path, Named::File(self.files.len() - 1));
            }
            Event::MadeDir(path) => self.rename(path, Named::Dir),
            Event::Gone(path) => self.rename(path, Named::Nothing),
            Event::Wrote { path, at, bytes } => self.change(path, Change::Write(*at, bytes.clone())),
            Event::Cut(path, length) => self.change(path, Change::Cut(*length)),
            Event::Synced(path) => self.sync(path),
            Event::Forgotten(path) => self.forget(path),
            Event::Made(_) | Event::Said(_) => {}
        }
    }

    fn rename(&mut self, path: &Path, to: Named) {
        let change = NameChange {
            when: self.clock,
            path: path.to_owned(),
            to,
        };
        self.seen.take(&change);
        self.changes.push(change);
    }

    fn change(&mut self, path: &Path, change: Change) {
        if let Some(file) = self.seen.files.get(path) {
            self.files[*file].coming.push((self.clock, change));
        }
    }

    fn sync(&mut self, path: &Path) {
        if let Some(file) = self.seen.files.get(path) {
            let file = &mut self.files[*file];
            for (_, change) in std::mem::take(&mut file.coming) {
                change.write(&mut file.safe, |_| true);
            }
        } else if self.seen.dirs.contains(path) {
            let theirs = |change: &mut NameChange| change.path.parent() == Some(path);
            for change in self.changes.extract_if(.., theirs) {
                self.safe.take(&change);
            }
        }
    }

    fn forget(&mut self, path: &Path) {
        if let Some(file) = self.seen.files.get(path) {
            self.files[*file].coming.clear();
        }
    }

    /// Returns the contents under the root if the power fails now.
    pub(crate) fn image(&self, root: &Path, cut: Cut) -> Image {
        let mut luck = CutChoice::new(cut, &self.on_the_way());
        let mut names = self.safe.clone();
        for change in &self.changes {
            if luck.keeps(change.when) {
                names.take(change);
            }
        }
        let mut image = Image::new();
        for (path, file) in &names.files {
            let parents = path.ancestors().skip(1);
            let reached = parents.into_iter().all(|dir| names.dirs.contains(dir));
            let (true, Ok(path)) = (reached, path.strip_prefix(root)) else {
                continue;
            };
            let file = &self.files[*file];
            let mut bytes = file.safe.clone();
            for (when, change) in &file.coming {
                luck.write(*when, change, &mut bytes);
            }
            image.insert(path.to_owned(), bytes);
        }
        image
    }

    /// Returns the sequence numbers of all unsynced changes.
    fn on_the_way(&self) -> Vec<usize> {
        let writes = self.files.iter().flat_map(|file| &file.coming);
        let writes = writes.map(|(when, _)| *when);
        let mut all: Vec<usize> = writes.chain(self.changes.iter().map(|of| of.when)).collect();
        all.sort_unstable();
        all
    }
}

impl Names {
    fn take(&mut self, change: &NameChange) {
        match change.to {
            Named::File(file) => drop(self.files.insert(change.path.clone(), file)),
            Named::Dir => drop(self.dirs.insert(change.path.clone())),
            Named::Nothing => {
                self.files.remove(&change.path);
                self.dirs.remove(&change.path);
            }
        }
    }
}

impl Change {
    /// Writes the sectors that pass the filter.
    fn write(&self, bytes: &mut Vec<u8>, mut lets: impl FnMut(usize) -> bool) {
        match self {
            Self::Cut(length) if lets(0) => bytes.resize(*length, 0),
            Self::Cut(_) => {}
            Self::Write(at, data) => {
                let mut from = *at;
                while from < at + data.len() {
                    let to = (from / SECTOR * SECTOR + SECTOR).min(at + data.len());
                    if lets(from) {
                        bytes.resize(bytes.len().max(to), 0);
                        bytes[from..to].copy_from_slice(&data[from - at..to - at]);
                    }
                    from = to;
                }
            }
        }
    }
}

/// Unit that a disk writes atomically.
const SECTOR: usize = 512;

/// Choices for one image.
struct CutChoice {
    cut: Cut,
    random: Random,
    /// Percentage of sectors that are there.
    often: u64,
    /// Change at which the power failed.
    last: usize,
}

impl CutChoice {
    fn new(cut: Cut, on_the_way: &[usize]) -> Self {
        let seed = match cut {
            Cut::Prefix(seed) | Cut::Sectors(seed) => seed,
            Cut::Nothing | Cut::Everything => 0,
        };
        let mut random = Random(seed);
        let often = [10, 50, 90][random.below(3)];
        let last = match on_the_way.len() {
            0 => 0,
            length => on_the_way[random.below(length)],
        };
        Self {
            cut,
            random,
            often,
            last,
        }
    }

    fn keeps(&mut self, when: usize) -> bool {
        match self.cut {
            Cut::Nothing => false,
            Cut::Everything => true,
            Cut::Prefix(_) => when < self.last,
            Cut::Sectors(_) => self.flips(),
        }
    }

    fn write(&mut self, when: usize, change: &Change, bytes: &mut Vec<u8>) {
        match self.cut {
            Cut::Prefix(_) if when == self.last => {
                let mut left = self.random.below(9);
                change.write(bytes, |_| {
                    left = left.saturating_sub(1);
                    left > 0
                });
            }
            Cut::Sectors(_) => change.write(bytes, |_| self.flips()),
            _ => {
                let keeps = self.keeps(when);
                change.write(bytes, |_| keeps);
            }
        }
    }

    fn flips(&mut self) -> bool {
        self.random.next() % 100 < self.often
    }
}

/// Deterministic pseudo-random numbers.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        let bound = u64::try_from(bound).expect("small");
        usize::try_from(self.next() % bound).expect("small")
    }
}

/// Writes an image into a directory.
pub(crate) fn write_image(image: &Image, dir: &Path) {
    for (path, bytes) in image {
        let path = dir.join(path);
        fs::create_dir_all(path.parent().expect("a directory")).expect("made");
        fs::write(path, bytes).expect("written");
    }
}
