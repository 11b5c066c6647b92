//! Helpers of all suites of the program.

use std::path::{Path, PathBuf};
use std::time::Duration;

/// Longer than any working step takes on a machine that is busy with other tests.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Returns the folder of the workspace.
pub(crate) fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).expect("a workspace").to_owned()
}
