//! Identity of a store: a small file that says that a store was made in this directory, and which.
//!
//! An empty or missing database may be a new store, or a store whose file was emptied. Without this file
//! the second would start as if it had never had a job. The file is written after the new database is
//! safe on the disk. So even an incomplete file proves that a database existed. A directory without the
//! file gets it when it is opened. Nothing here removes it.

use std::fs;
use std::io::{self, Write as _};
use std::path::Path;

use super::private_files::{if_exists, open_private_file, sync_dir};

/// The identity file of a directory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum IdCheck {
    /// No store was made here, or it has no file yet.
    Missing,
    /// A crash interrupted its write.
    Torn,
    /// The identity of a store.
    Of(String),
}

impl IdCheck {
    /// Reads the file of a directory.
    pub(crate) fn read_from(dir: &Path) -> io::Result<Self> {
        let file = if_exists(fs::read(dir.join(ID_FILE)))?;
        Ok(file.map_or(Self::Missing, |bytes| Self::parse(&bytes)))
    }

    fn parse(bytes: &[u8]) -> Self {
        let text = str::from_utf8(bytes).ok();
        let identity = text.and_then(|text| text.strip_prefix(HEAD)?.strip_suffix('\n'));
        identity.map_or(Self::Torn, |identity| Self::Of(identity.to_owned()))
    }

    /// Writes the file of a directory whose database is safe.
    pub(crate) fn write(dir: &Path, identity: &str) -> io::Result<()> {
        let path = dir.join(ID_FILE);
        let mut file = open_private_file(&path)?;
        let text = format!("{HEAD}{identity}\n");
        let written = file
            .write_all(text.as_bytes())
            .and_then(|()| file.set_len(u64::try_from(text.len()).unwrap_or(u64::MAX)))
            .and_then(|()| file.sync_all())
            .and_then(|()| sync_dir(dir));
        written.inspect_err(|_| {
            // The next attempt must write it again. If the removal fails, too, the file protects less.
            let _ = fs::remove_file(&path);
        })
    }

    /// Returns true if a store was made here.
    pub(crate) fn exists(&self) -> bool {
        *self != Self::Missing
    }
}

/// The file, next to the database.
pub(crate) const ID_FILE: &str = "seal";

/// The start of the file, which explains it to its reader. The number is the version of this format.
const HEAD: &str = "outflow job store 1 ";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_incomplete_id_file_exists_without_an_identity() {
        let dir = tempfile::tempdir().expect("a directory");
        let found = || IdCheck::read_from(dir.path()).expect("read");
        assert!(!found().exists());
        IdCheck::write(dir.path(), "17a").expect("written");
        assert_eq!(found(), IdCheck::Of("17a".to_owned()));
        let whole = fs::read(dir.path().join(ID_FILE)).expect("read");
        for length in 0..whole.len() {
            fs::write(dir.path().join(ID_FILE), &whole[..length]).expect("cut");
            assert_eq!(found(), IdCheck::Torn, "{length}");
        }
        IdCheck::write(dir.path(), "2").expect("written");
        assert_eq!(found(), IdCheck::Of("2".to_owned()));
    }
}
