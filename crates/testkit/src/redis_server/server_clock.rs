//! The wall clock of one server, which a test can set while the server runs.
//!
//! A server asks the system for its time, and a test must not set the system's. `libfaketime` stands in between: it
//! reads the offset from a file at each call. The server's monotonic clock stays the system's.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use tempfile::TempDir;

/// Clock of a server with an offset from the system's.
#[derive(Clone, Debug)]
pub struct ServerClock {
    directory: Arc<TempDir>,
}

impl ServerClock {
    /// Returns true if a server's clock can be set on this machine.
    pub fn is_installed() -> bool {
        library().is_some()
    }

    /// Creates a clock that shows the system's time.
    ///
    /// # Errors
    /// If its file cannot be written.
    pub fn new() -> io::Result<Self> {
        let clock = Self {
            directory: Arc::new(tempfile::tempdir()?),
        };
        clock.set_offset(0)?;
        Ok(clock)
    }

    /// Sets the clock to this many seconds after the system's, or before it.
    ///
    /// # Errors
    /// If its file cannot be written.
    pub fn set_offset(&self, seconds: i64) -> io::Result<()> {
        // A server never reads half of it.
        let next = self.directory.path().join("next");
        fs::write(&next, format!("{seconds:+}"))?;
        fs::rename(next, self.file())
    }

    /// Makes a program use this clock.
    pub(super) fn apply(&self, command: &mut Command) {
        command
            .env("LD_PRELOAD", library().unwrap_or_default())
            .env("FAKETIME_TIMESTAMP_FILE", self.file())
            .env("FAKETIME_NO_CACHE", "1")
            .env("DONT_FAKE_MONOTONIC", "1")
            .env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
    }

    fn file(&self) -> PathBuf {
        self.directory.path().join("offset")
    }
}

/// Returns the library, which distributions keep in a folder for each platform.
fn library() -> Option<PathBuf> {
    let platforms = fs::read_dir(LIBRARIES).ok()?.flatten();
    let candidates = platforms.map(|platform| platform.path().join(LIBRARY));
    candidates
        .chain([Path::new(LIBRARIES).join(LIBRARY)])
        .find(|path| path.exists())
}

const LIBRARIES: &str = "/usr/lib";
const LIBRARY: &str = "faketime/libfaketimeMT.so.1";
