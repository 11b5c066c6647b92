//! The directory of a cache: who may read it, who may write it, and how a file comes into it.
//!
//! It belongs to one user and, while it is used, to one process; a lock file says so, and the system
//! gives it back however that process ends. A second process is told and works from memory. Files are
//! written under another name and renamed, links are never followed, and names that are not ours are
//! left alone: whoever points the cache at a directory full of other things loses none of them.
//! Nothing is synced: what a crash leaves half written does not bear its mark and is dropped.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use rustls::crypto::aws_lc_rs::default_provider;

use super::CacheError;
use super::key::CacheKey;

/// A directory that is ours alone.
pub(super) struct CacheDir {
    path: PathBuf,
    /// Held as long as the directory is used.
    _lock: File,
}

/// What became of the wish to use a directory.
pub(super) enum OpenedDir {
    /// It is ours.
    Ours(CacheDir),
    /// Another process uses it.
    Elsewhere,
    /// It cannot be written.
    Unusable,
}

/// A file that was found in it.
pub(super) struct ListedFile {
    pub(super) key: CacheKey,
    pub(super) size: u64,
    /// When it was written; older ones go first.
    pub(super) written: Option<std::time::SystemTime>,
}

impl CacheDir {
    /// Opens a directory, and makes it if there is none.
    ///
    /// # Errors
    /// If it is a link, no directory, somebody else's, or open to others and full of other things.
    pub(super) fn open(path: &Path) -> Result<OpenedDir, CacheError> {
        if fs::symlink_metadata(path).is_err() && private_directory(path).is_err() {
            return Ok(OpenedDir::Unusable);
        }
        let Ok(metadata) = fs::symlink_metadata(path) else {
            return Ok(OpenedDir::Unusable);
        };
        if !metadata.is_dir() {
            return Err(CacheError::NotADirectory);
        }
        guard::close_to_others(path, &metadata)?;
        let mut options = OpenOptions::new();
        options.create(true).truncate(false).read(true).write(true);
        let Ok(lock) = guard::private(&mut options).open(path.join(LOCK)) else {
            return Ok(OpenedDir::Unusable);
        };
        guard::same_owner(&metadata, &lock)?;
        match lock.try_lock() {
            Ok(()) => Ok(OpenedDir::Ours(Self {
                path: path.to_owned(),
                _lock: lock,
            })),
            Err(TryLockError::WouldBlock) => Ok(OpenedDir::Elsewhere),
            Err(TryLockError::Error(_)) => Ok(OpenedDir::Unusable),
        }
    }

    /// The directory's secret, and whether it is a new one. A new one cannot be told by any file.
    pub(super) fn secret(&self) -> io::Result<([u8; 32], SecretFile)> {
        let mut known = Vec::new();
        let read = self
            .reader(SECRET)
            .and_then(|file| file.take(33).read_to_end(&mut known));
        if let (Ok(_), Ok(secret)) = (read, <[u8; 32]>::try_from(known)) {
            return Ok((secret, SecretFile::Known));
        }
        let secret = random_secret()?;
        self.write_as(SECRET, &secret)?;
        Ok((secret, SecretFile::New))
    }

    /// The answers in it. Half-written files are removed on the way.
    pub(super) fn list(&self) -> io::Result<Vec<ListedFile>> {
        let mut listed = Vec::new();
        for found in fs::read_dir(&self.path)?.flatten() {
            let name = found.file_name();
            let Some(name) = name.to_str() else { continue };
            if name.ends_with(HALF) {
                let _ = fs::remove_file(found.path());
            }
            let (Some(key), Ok(metadata)) = (CacheKey::from_file_name(name), found.metadata())
            else {
                continue;
            };
            listed.push(ListedFile {
                key,
                size: if metadata.is_file() {
                    metadata.len()
                } else {
                    0
                },
                written: metadata.modified().ok(),
            });
        }
        Ok(listed)
    }

    /// The content of an answer's file, up to so many bytes.
    pub(super) fn read(&self, key: &CacheKey, most: u64) -> io::Result<Bytes> {
        let mut content = Vec::new();
        let file = self.reader(&key.file_name())?;
        if !file.metadata()?.is_file() {
            return Err(io::ErrorKind::InvalidData.into());
        }
        file.take(most).read_to_end(&mut content)?;
        Ok(content.into())
    }

    /// Writes an answer's file, in the place of an older one.
    pub(super) fn write(&self, key: &CacheKey, content: &[u8]) -> io::Result<()> {
        self.write_as(&key.file_name(), content)
    }

    /// Removes an answer's file. One that is not there is removed.
    pub(super) fn remove(&self, key: &CacheKey) -> io::Result<()> {
        match fs::remove_file(self.path.join(key.file_name())) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    fn reader(&self, name: &str) -> io::Result<File> {
        guard::private(OpenOptions::new().read(true)).open(self.path.join(name))
    }

    fn write_as(&self, name: &str, content: &[u8]) -> io::Result<()> {
        let half = self.path.join(format!("{name}{HALF}"));
        let written =
            write_new(&half, content).and_then(|()| fs::rename(&half, self.path.join(name)));
        if written.is_err() {
            let _ = fs::remove_file(&half);
        }
        written
    }
}

/// Whether a secret was found or made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum SecretFile {
    Known,
    New,
}

/// Thirty-two bytes that nobody can guess, from where TLS takes its own.
pub(super) fn random_secret() -> io::Result<[u8; 32]> {
    let mut secret = [0; 32];
    let filled = default_provider().secure_random.fill(&mut secret);
    filled.map_err(|_| io::Error::other("the system gives no random bytes"))?;
    Ok(secret)
}

/// What stands under the name already is left over from a crash.
fn write_new(path: &Path, content: &[u8]) -> io::Result<()> {
    let _ = fs::remove_file(path);
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    guard::private(&mut options).open(path)?.write_all(content)
}

fn private_directory(path: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    guard::private_directory(&mut builder).create(path)
}

/// What other users may not do, in the words of Unix.
#[cfg(unix)]
mod guard {
    use std::fs::{self, DirBuilder, File, Metadata, OpenOptions, Permissions};
    use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
    use std::path::Path;

    use rustix::fs::OFlags;

    use super::{CacheError, SECRET};

    /// New files are for the owner alone, and a link in the place of a file is an error.
    pub(super) fn private(options: &mut OpenOptions) -> &mut OpenOptions {
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
        options.mode(0o600).custom_flags(flags.bits().cast_signed())
    }

    pub(super) fn private_directory(builder: &mut DirBuilder) -> &mut DirBuilder {
        builder.mode(0o700)
    }

    /// Shuts others out of a directory that is ours or empty; one that holds other things is not
    /// changed behind its owner's back.
    pub(super) fn close_to_others(path: &Path, metadata: &Metadata) -> Result<(), CacheError> {
        let others = metadata.mode() & 0o077;
        if others == 0 {
            return Ok(());
        }
        let ours = path.join(SECRET).exists();
        let empty = fs::read_dir(path).is_ok_and(|mut found| found.next().is_none());
        if !ours && !empty {
            return Err(CacheError::NotOurs);
        }
        let closed = fs::set_permissions(path, Permissions::from_mode(0o700));
        closed.map_err(|_| CacheError::NotOurs)
    }

    /// Whoever owns the directory could put anything into it.
    pub(super) fn same_owner(directory: &Metadata, ours: &File) -> Result<(), CacheError> {
        match ours.metadata() {
            Ok(file) if file.uid() == directory.uid() => Ok(()),
            _ => Err(CacheError::NotOurs),
        }
    }
}

/// Elsewhere a directory is as private as where it lies.
#[cfg(not(unix))]
mod guard {
    use std::fs::{DirBuilder, File, Metadata, OpenOptions};
    use std::path::Path;

    use super::CacheError;

    pub(super) fn private(options: &mut OpenOptions) -> &mut OpenOptions {
        options
    }

    pub(super) fn private_directory(builder: &mut DirBuilder) -> &mut DirBuilder {
        builder
    }

    pub(super) fn close_to_others(_: &Path, _: &Metadata) -> Result<(), CacheError> {
        Ok(())
    }

    pub(super) fn same_owner(_: &Metadata, _: &File) -> Result<(), CacheError> {
        Ok(())
    }
}

/// The file that says whose the directory is at the moment.
const LOCK: &str = "lock";

/// The file with the secret that keys are made with.
const SECRET: &str = "secret";

/// How the name of a file ends that is not whole yet.
const HALF: &str = ".half";
