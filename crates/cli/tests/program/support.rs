//! What all suites of the program share.

use std::path::{Path, PathBuf};
use std::time::Duration;

/// Longer than anything takes that works, on a machine that is busy with other tests.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// The folder of the workspace.
pub(crate) fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).expect("a workspace").to_owned()
}
