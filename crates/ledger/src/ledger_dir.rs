//! The directory of a host's accounts.
//!
//! It is a state directory, not a runtime one: a ban of a day survives a logout. Only its owner can use it: names of
//! accounts show which APIs a program calls, and another user could replace the accounts.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use outflow_core::Clock;
use xxhash_rust::xxh3::xxh3_64;

use crate::account_file::{AccountFile, LEDGER, StoredAccount};
use crate::file_access;
use crate::host_timeline::HostTimeline;

/// The directory of a host's accounts.
#[derive(Debug, Clone)]
pub struct LedgerDir {
    path: PathBuf,
    /// Keys the fingerprints of credentials.
    key: [u8; KEY_LENGTH],
}

impl LedgerDir {
    /// Opens a directory, and creates it if it is missing.
    ///
    /// # Errors
    /// If this user cannot write there, if it belongs to another user or others have files in it, or if it is on a
    /// network: locks of another machine do not hold there.
    pub fn open(path: &Path) -> Result<Self, OpenLedgerError> {
        let refused = |reason| OpenLedgerError {
            path: path.to_owned(),
            reason,
        };
        let failed = |error: io::Error| refused(OpenReason::Io(error));
        file_access::create_dir(path).map_err(failed)?;
        check_owner(path).map_err(failed)?.map_err(refused)?;
        close_to_others(path).map_err(failed)?.map_err(refused)?;
        check_file_system(path).map_err(refused)?;
        let key = read_or_create_key(&path.join(KEY_FILE)).map_err(failed)?;
        Ok(Self {
            path: path.to_owned(),
            key,
        })
    }

    /// Returns the default directory: that of the service manager, the user's state directory, or none.
    pub fn default_path(variable: impl Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
        let named = |name: &str| variable(name).filter(|value| value.is_absolute());
        let first = |paths: PathBuf| paths.to_str()?.split(':').next().map(PathBuf::from);
        if let Some(state) = variable("STATE_DIRECTORY")
            .and_then(first)
            .filter(|path| path.is_absolute())
        {
            return Some(state.join("shared"));
        }
        let state = named("XDG_STATE_HOME").or_else(|| user_state(&named));
        state.map(|state| state.join("outflow").join("shared"))
    }

    /// Returns the path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns a short name of a credential: equal in all processes of this directory, and of no use
    /// without it.
    pub fn fingerprint(&self, credential: &[u8]) -> u64 {
        let hash = blake3::keyed_hash(&self.key, credential);
        let (first, _) = hash.as_bytes().split_first_chunk().unwrap_or((&[0; 8], &[]));
        u64::from_le_bytes(*first)
    }

    /// Returns every account, by name.
    ///
    /// # Errors
    /// If the directory cannot be read.
    pub fn accounts(&self, clock: &dyn Clock) -> io::Result<Vec<StoredAccount>> {
        let timeline = HostTimeline::of_host();
        let mut accounts = Vec::new();
        for ledger in self.ledgers()? {
            // A file may disappear while this reads, or belong to a newer version.
            accounts.extend(AccountFile::peek(ledger, timeline, clock).ok().flatten());
        }
        accounts.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(accounts)
    }

    /// Forgets what an account has counted; its holders keep their units. Returns false if there is none.
    ///
    /// # Errors
    /// If its file cannot be read or written.
    pub fn forget(&self, account: &str, clock: &dyn Clock) -> io::Result<bool> {
        if !self.file(account, LEDGER).exists() {
            return Ok(false);
        }
        let mut file = AccountFile::new(self, HostTimeline::of_host(), account);
        let forgotten = file.turn(clock, |account, _| account.forget_arrivals());
        forgotten.map_err(io::Error::other)?;
        Ok(true)
    }

    /// Returns true if the directory can still be used, and is the one that was opened.
    pub fn is_intact(&self) -> bool {
        read_key(&self.path.join(KEY_FILE)).is_ok_and(|key| key == Some(self.key))
    }

    /// Returns the files of all accounts.
    pub(crate) fn ledgers(&self) -> io::Result<impl Iterator<Item = PathBuf> + use<>> {
        let files = fs::read_dir(&self.path)?.filter_map(|entry| Some(entry.ok()?.path()));
        Ok(files.filter(|path| path.extension().is_some_and(|extension| extension == LEDGER)))
    }

    /// Returns the path of an account's file with this extension.
    pub(crate) fn file(&self, account: &str, extension: &str) -> PathBuf {
        let readable = account.chars().take(READABLE_LENGTH);
        let readable: String = readable
            .map(|letter| match letter {
                'a'..='z' | 'A'..='Z' | '0'..='9' | '-' | '_' => letter,
                _ => '_',
            })
            .collect();
        let hash = xxh3_64(account.as_bytes());
        self.path.join(format!("{readable}-{hash:016x}.{extension}"))
    }
}

#[cfg(target_os = "macos")]
fn user_state(named: &dyn Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
    Some(named("HOME")?.join("Library/Application Support"))
}

#[cfg(windows)]
fn user_state(named: &dyn Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
    named("LOCALAPPDATA")
}

#[cfg(not(any(target_os = "macos", windows)))]
fn user_state(named: &dyn Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
    Some(named("HOME")?.join(".local/state"))
}

/// Refuses a directory of another user, who could place files in it.
#[cfg(unix)]
fn check_owner(path: &Path) -> io::Result<Result<(), OpenReason>> {
    use std::os::unix::fs::MetadataExt as _;
    let owner = fs::metadata(path)?.uid();
    let user = rustix::process::geteuid().as_raw();
    Ok((owner == user).then_some(()).ok_or(OpenReason::Owner { owner, user }))
}

#[cfg(not(unix))]
fn check_owner(_: &Path) -> io::Result<Result<(), OpenReason>> {
    Ok(Ok(()))
}

/// Closes an empty or own directory to other users. A directory with other files stays as it is, unless others can write
/// to it: then accounts in it may be theirs.
#[cfg(unix)]
fn close_to_others(path: &Path) -> io::Result<Result<(), OpenReason>> {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
    let mode = fs::metadata(path)?.mode();
    let others = mode & 0o077;
    if others == 0 {
        return Ok(Ok(()));
    }
    let is_writable = mode & 0o022 != 0;
    let is_empty = fs::read_dir(path)?.next().is_none();
    if is_empty || (!is_writable && path.join(KEY_FILE).exists()) {
        return fs::set_permissions(path, fs::Permissions::from_mode(0o700)).map(Ok);
    }
    Ok((!is_writable).then_some(()).ok_or(OpenReason::Open))
}

/// Here a directory is as private as its parent.
#[cfg(not(unix))]
fn close_to_others(_: &Path) -> io::Result<Result<(), OpenReason>> {
    Ok(Ok(()))
}

#[cfg(target_os = "linux")]
fn check_file_system(path: &Path) -> Result<(), OpenReason> {
    let kind = rustix::fs::statfs(path).map(|found| i128::from(found.f_type));
    match kind {
        Ok(kind) if NETWORK_FILE_SYSTEMS.contains(&kind) => Err(OpenReason::Network),
        _ => Ok(()),
    }
}

#[cfg(not(target_os = "linux"))]
fn check_file_system(_: &Path) -> Result<(), OpenReason> {
    Ok(())
}

/// NFS, SMB, SMB 2, CIFS, AFS and Ceph, as `statfs` numbers them.
#[cfg(target_os = "linux")]
const NETWORK_FILE_SYSTEMS: [i128; 6] = [0x6969, 0x517B, 0xFE53_4D42, 0xFF53_4D42, 0x5346_414F, 0x00C3_6400];

/// Reads the key, or creates it: of several processes at once the first one's counts.
fn read_or_create_key(path: &Path) -> io::Result<[u8; KEY_LENGTH]> {
    if let Some(key) = read_key(path)? {
        return Ok(key);
    }
    let mut key = [0; KEY_LENGTH];
    getrandom::fill(&mut key).map_err(|error| io::Error::other(error.to_string()))?;
    let new = path.with_extension(format!("{}.new", std::process::id()));
    let _left_by_a_crash = fs::remove_file(&new);
    file_access::write_at(&file_access::create_new(&new)?, &key, 0)?;
    // A link fails if the name exists, where a rename would replace another process's key.
    let _another_was_first = fs::hard_link(&new, path);
    fs::remove_file(&new)?;
    read_key(path)?.ok_or_else(|| io::Error::other("its file `key` cannot be created"))
}

fn read_key(path: &Path) -> io::Result<Option<[u8; KEY_LENGTH]>> {
    let file = match file_access::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut key = [0; KEY_LENGTH];
    match file_access::read_at(&file, &mut key, 0)? {
        KEY_LENGTH => Ok(Some(key)),
        _ => Err(io::Error::other(
            "its file `key` is too short: remove the directory while no outflow runs",
        )),
    }
}

/// Reason that a directory cannot hold accounts.
#[derive(Debug)]
pub struct OpenLedgerError {
    path: PathBuf,
    reason: OpenReason,
}

impl OpenLedgerError {
    /// Returns the error of a process whose environment names no directory.
    pub fn nameless() -> Self {
        Self {
            path: PathBuf::new(),
            reason: OpenReason::Nameless,
        }
    }

    pub(crate) fn no_thread(dir: &LedgerDir, error: io::Error) -> Self {
        Self {
            path: dir.path.clone(),
            reason: OpenReason::Thread(error),
        }
    }
}

#[derive(Debug)]
enum OpenReason {
    Io(io::Error),
    Thread(io::Error),
    Nameless,
    #[cfg_attr(not(unix), expect(dead_code, reason = "owners are checked on Unix"))]
    Owner {
        owner: u32,
        user: u32,
    },
    /// Other users can write to it, and it has files.
    #[cfg_attr(not(unix), expect(dead_code, reason = "access rights are checked on Unix"))]
    Open,
    #[cfg_attr(
        not(target_os = "linux"),
        expect(dead_code, reason = "file systems are known on Linux")
    )]
    Network,
}

impl fmt::Display for OpenLedgerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if matches!(self.reason, OpenReason::Nameless) {
            return f.write_str(
                "limits need a directory to be shared, and neither STATE_DIRECTORY, XDG_STATE_HOME nor HOME names one: \
                 name one in `shared.dir`, or set `shared.limits = \"off\"`",
            );
        }
        write!(f, "the directory {} cannot hold shared limits: ", self.path.display())?;
        match &self.reason {
            OpenReason::Nameless => Ok(()),
            OpenReason::Thread(error) => write!(f, "no thread can be started ({error})"),
            OpenReason::Io(error) => write!(f, "{error}: make it writable, or name another in `shared.dir`"),
            OpenReason::Owner { owner, user } => write!(
                f,
                "it belongs to user {owner}, and this is user {user}: name another in `shared.dir`"
            ),
            OpenReason::Open => f.write_str(
                "other users can write to it, and it has files: close it with `chmod 700` if they are yours, or name another \
                 in `shared.dir`",
            ),
            OpenReason::Network => f.write_str(
                "it is on a network, where locks of other machines do not hold: name a local one in `shared.dir`",
            ),
        }
    }
}

impl std::error::Error for OpenLedgerError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.reason {
            OpenReason::Io(error) | OpenReason::Thread(error) => Some(error),
            OpenReason::Owner { .. } | OpenReason::Open | OpenReason::Network | OpenReason::Nameless => None,
        }
    }
}

const KEY_FILE: &str = "key";
const KEY_LENGTH: usize = 32;
/// Enough to recognise an API and its group.
const READABLE_LENGTH: usize = 48;

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).expect("it exists").mode() & 0o777
    }

    // 0777, 0775 and 0755, as `mkdir` makes them under usual masks.
    #[test]
    fn a_directory_is_closed_to_other_users_or_refused() {
        let temp = tempfile::tempdir().expect("a directory");
        let open_to = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode));
        for access in [0o777, 0o775, 0o755] {
            let path = temp.path().join(format!("{access:o}"));
            fs::create_dir(&path).expect("new");
            open_to(&path, access).expect("owned");
            LedgerDir::open(&path).expect("it is empty");
            assert_eq!(mode(&path), 0o700, "{access:o}");

            // Later it is open again. What others could write is not used.
            open_to(&path, access).expect("owned");
            let opened = LedgerDir::open(&path);
            assert_eq!(opened.is_ok(), access == 0o755, "{access:o}");
            let message = opened.err().map(|error| error.to_string());
            assert!(message.is_none_or(|message| message.contains("chmod 700")));
            assert_eq!(mode(&path), if access == 0o755 { 0o700 } else { access });
        }
    }

    #[test]
    fn a_directory_is_intact_until_it_is_gone_or_replaced() {
        let temp = tempfile::tempdir().expect("a directory");
        let (path, away) = (temp.path().join("shared"), temp.path().join("away"));
        let dir = LedgerDir::open(&path).expect("writable");
        assert!(dir.is_intact());
        fs::rename(&path, &away).expect("moved");
        assert!(!dir.is_intact());
        let other = LedgerDir::open(&path).expect("writable");
        assert!(other.is_intact() && !dir.is_intact());
    }
}
