//! The seal of a store: a small file that says that a store was made in this directory, and which.
//!
//! A database that is empty or not there is how a new store looks, and how one looks whose file somebody
//! emptied: without a seal the second would begin anew as if nobody had ever submitted anything. The seal
//! is set when the new database is safe on the disk, and not before: whoever finds it, in whatever state a
//! crash left it, knows that there was more. A directory that came without it gets it when it is opened.
//! Nothing here takes it away.

use std::fs;
use std::io::{self, Write as _};
use std::path::Path;

use super::directory::{keep_names, private_file};

/// What is found of a seal.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum IdCheck {
    /// No store was made here, or it came without.
    Missing,
    /// The power failed while it was written.
    Torn,
    /// Of the store that has this identity.
    Of(String),
}

impl IdCheck {
    /// Looks for the seal of a directory.
    pub(crate) fn find(dir: &Path) -> io::Result<Self> {
        match fs::read(dir.join(SEAL)) {
            Ok(bytes) => Ok(Self::read(&bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self::Missing),
            Err(error) => Err(error),
        }
    }

    fn read(bytes: &[u8]) -> Self {
        let text = str::from_utf8(bytes).ok();
        let whole = text.and_then(|text| text.strip_prefix(HEAD)?.strip_suffix('\n'));
        whole.map_or(Self::Torn, |identity| Self::Of(identity.to_owned()))
    }

    /// Seals a directory whose database is safe.
    pub(crate) fn set(dir: &Path, identity: &str) -> io::Result<()> {
        let path = dir.join(SEAL);
        let mut file = private_file(&path)?;
        let text = format!("{HEAD}{identity}\n");
        let set = file
            .write_all(text.as_bytes())
            .and_then(|()| file.set_len(u64::try_from(text.len()).unwrap_or(u64::MAX)))
            .and_then(|()| file.sync_all())
            .and_then(|()| keep_names(dir));
        set.inspect_err(|_| {
            // The next attempt has to find that it is not safe. If that fails, too, it guards less.
            let _ = fs::remove_file(&path);
        })
    }

    /// Whether a store was made here.
    pub(crate) fn is_set(&self) -> bool {
        *self != Self::Missing
    }
}

/// The file, beside the database.
pub(crate) const SEAL: &str = "seal";

/// What it begins with, so that whoever finds it knows what it is. The number is that of this layout.
const HEAD: &str = "outflow job store 1 ";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seal_that_is_there_in_part_is_set_and_of_nobody() {
        let dir = tempfile::tempdir().expect("a directory");
        let found = || IdCheck::find(dir.path()).expect("read");
        assert!(!found().is_set());
        IdCheck::set(dir.path(), "17a").expect("set");
        assert_eq!(found(), IdCheck::Of("17a".to_owned()));
        let whole = fs::read(dir.path().join(SEAL)).expect("read");
        for length in 0..whole.len() {
            fs::write(dir.path().join(SEAL), &whole[..length]).expect("cut");
            assert_eq!(found(), IdCheck::Torn, "{length}");
        }
        IdCheck::set(dir.path(), "2").expect("set");
        assert_eq!(found(), IdCheck::Of("2".to_owned()));
    }
}
