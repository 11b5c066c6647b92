//! Cache directory: access rights, lock and file writes.
//!
//! It belongs to one user and, while in use, to one process. The system releases the lock file
//! however that process ends; a second process works from memory. Files are written under a
//! temporary name and renamed, links are never followed, and foreign files stay untouched. Nothing
//! is synced: the MAC of a half-written file does not match, so a crash costs only that file.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use rustls::crypto::aws_lc_rs::default_provider;

use super::key::CacheKey;
use super::{CacheError, DiskState};

/// Cache directory locked by this process.
pub(super) struct CacheDir {
    path: PathBuf,
    /// Held while the directory is in use.
    _lock: File,
}

/// File of a response in the directory.
pub(super) struct ListedFile {
    pub(super) key: CacheKey,
    pub(super) size: u64,
    /// Time of the write; older files are removed first.
    pub(super) written: Option<std::time::SystemTime>,
}

impl CacheDir {
    /// Opens a directory and creates it if missing.
    ///
    /// # Errors
    /// If it is a link, not a directory, owned by another user, or accessible to others with
    /// foreign files in it.
    pub(super) fn open(path: &Path) -> Result<Result<Self, DiskState>, CacheError> {
        if fs::symlink_metadata(path).is_err() && create_private_dir(path).is_err() {
            return Ok(Err(DiskState::Unusable));
        }
        let Ok(metadata) = fs::symlink_metadata(path) else {
            return Ok(Err(DiskState::Unusable));
        };
        if !metadata.is_dir() {
            return Err(CacheError::NotADirectory);
        }
        access::restrict(path, &metadata)?;
        let mut options = OpenOptions::new();
        options.create(true).truncate(false).read(true).write(true);
        let Ok(lock) = access::owner_only(&mut options).open(path.join(LOCK)) else {
            return Ok(Err(DiskState::Unusable));
        };
        access::check_owner(&metadata, &lock)?;
        match lock.try_lock() {
            Ok(()) => Ok(Ok(Self {
                path: path.to_owned(),
                _lock: lock,
            })),
            Err(TryLockError::WouldBlock) => Ok(Err(DiskState::Elsewhere)),
            Err(TryLockError::Error(_)) => Ok(Err(DiskState::Unusable)),
        }
    }

    /// Returns the directory's secret, or creates one. No existing file matches a new secret.
    pub(super) fn secret(&self) -> io::Result<DirSecret> {
        let mut known = Vec::new();
        let read = self
            .reader(SECRET)
            .and_then(|file| file.take(33).read_to_end(&mut known));
        let known = read.ok().and_then(|_| <[u8; 32]>::try_from(known).ok());
        let is_new = known.is_none();
        let bytes = known.map_or_else(random_secret, Ok)?;
        if is_new {
            self.write_as(SECRET, &bytes)?;
        }
        Ok(DirSecret { bytes, is_new })
    }

    /// Lists the responses. Removes half-written files.
    pub(super) fn list(&self) -> io::Result<Vec<ListedFile>> {
        let mut listed = Vec::new();
        for file in fs::read_dir(&self.path)?.flatten() {
            let name = file.file_name();
            let Some(name) = name.to_str() else { continue };
            if name.ends_with(INCOMPLETE) {
                let _ = fs::remove_file(file.path());
            }
            let (Some(key), Ok(metadata)) = (CacheKey::from_file_name(name), file.metadata()) else {
                continue;
            };
            listed.push(ListedFile {
                key,
                size: if metadata.is_file() { metadata.len() } else { 0 },
                written: metadata.modified().ok(),
            });
        }
        Ok(listed)
    }

    /// Reads a response's file up to a maximum length.
    pub(super) fn read(&self, key: &CacheKey, max: u64) -> io::Result<Bytes> {
        let mut content = Vec::new();
        let file = self.reader(&key.file_name())?;
        if !file.metadata()?.is_file() {
            return Err(io::ErrorKind::InvalidData.into());
        }
        file.take(max).read_to_end(&mut content)?;
        // The response lives in this buffer, and its length is what counts.
        content.shrink_to_fit();
        Ok(content.into())
    }

    /// Writes a response's file and replaces an older one.
    pub(super) fn write(&self, key: &CacheKey, content: &[u8]) -> io::Result<()> {
        self.write_as(&key.file_name(), content)
    }

    /// Removes a response's file. A missing file is no error.
    pub(super) fn remove(&self, key: &CacheKey) -> io::Result<()> {
        match fs::remove_file(self.path.join(key.file_name())) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    fn reader(&self, name: &str) -> io::Result<File> {
        access::owner_only(OpenOptions::new().read(true)).open(self.path.join(name))
    }

    fn write_as(&self, name: &str, content: &[u8]) -> io::Result<()> {
        let incomplete = self.path.join(format!("{name}{INCOMPLETE}"));
        let result = write_new(&incomplete, content).and_then(|()| fs::rename(&incomplete, self.path.join(name)));
        if result.is_err() {
            let _ = fs::remove_file(&incomplete);
        }
        result
    }
}

/// Secret of a cache directory.
pub(super) struct DirSecret {
    pub(super) bytes: [u8; 32],
    pub(super) is_new: bool,
}

/// Returns 32 random bytes from TLS's source.
pub(super) fn random_secret() -> io::Result<[u8; 32]> {
    let mut secret = [0; 32];
    let filled = default_provider().secure_random.fill(&mut secret);
    filled.map_err(|_| io::Error::other("the system provides no random bytes"))?;
    Ok(secret)
}

/// An existing file under this name is left from a crash.
fn write_new(path: &Path, content: &[u8]) -> io::Result<()> {
    let _ = fs::remove_file(path);
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    access::owner_only(&mut options).open(path)?.write_all(content)
}

fn create_private_dir(path: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    access::owner_only_dir(&mut builder).create(path)
}

/// Access rights on Unix.
#[cfg(unix)]
mod access {
    use std::fs::{self, DirBuilder, File, Metadata, OpenOptions, Permissions};
    use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
    use std::path::Path;

    use rustix::fs::OFlags;

    use super::{CacheError, SECRET};

    /// Restricts new files to the owner and refuses links.
    pub(super) fn owner_only(options: &mut OpenOptions) -> &mut OpenOptions {
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
        options.mode(0o600).custom_flags(flags.bits().cast_signed())
    }

    pub(super) fn owner_only_dir(builder: &mut DirBuilder) -> &mut DirBuilder {
        builder.mode(0o700)
    }

    /// Restricts a directory that is ours or empty to its owner. A directory with foreign files is
    /// not changed.
    pub(super) fn restrict(path: &Path, metadata: &Metadata) -> Result<(), CacheError> {
        let others = metadata.mode() & 0o077;
        if others == 0 {
            return Ok(());
        }
        let ours = path.join(SECRET).exists();
        let empty = fs::read_dir(path).is_ok_and(|mut file| file.next().is_none());
        if !ours && !empty {
            return Err(CacheError::NotOurs);
        }
        let closed = fs::set_permissions(path, Permissions::from_mode(0o700));
        closed.map_err(|_| CacheError::NotOurs)
    }

    /// Refuses a directory of another user, who could place files in it.
    pub(super) fn check_owner(directory: &Metadata, ours: &File) -> Result<(), CacheError> {
        match ours.metadata() {
            Ok(file) if file.uid() == directory.uid() => Ok(()),
            _ => Err(CacheError::NotOurs),
        }
    }
}

/// On other systems a directory is as private as its parent.
#[cfg(not(unix))]
mod access {
    use std::fs::{DirBuilder, File, Metadata, OpenOptions};
    use std::path::Path;

    use super::CacheError;

    pub(super) fn owner_only(options: &mut OpenOptions) -> &mut OpenOptions {
        options
    }

    pub(super) fn owner_only_dir(builder: &mut DirBuilder) -> &mut DirBuilder {
        builder
    }

    pub(super) fn restrict(_: &Path, _: &Metadata) -> Result<(), CacheError> {
        Ok(())
    }

    pub(super) fn check_owner(_: &Metadata, _: &File) -> Result<(), CacheError> {
        Ok(())
    }
}

/// Lock file of the process that uses the directory.
const LOCK: &str = "lock";

/// File with the secret of the keys.
const SECRET: &str = "secret";

/// Suffix of incomplete files.
const INCOMPLETE: &str = ".half";
