//! `outflow bulk run` on a real terminal: tmux draws its screen, and the test reads it.

use std::process::Command;
use std::time::Duration;

use outflow_testkit::Deadline;
use tempfile::TempDir;

use super::bulk_run::{BulkRun, jobs};
use super::support::folder;
use crate::support::PATIENCE;

/// A program in a terminal of its own; the server of tmux ends with it.
struct TmuxScreen {
    folder: TempDir,
}

impl TmuxScreen {
    /// Starts a shell command in a folder, on a screen that is wide enough for every sentence.
    fn start(run: &BulkRun, line: &str) -> Self {
        let screen = Self { folder: folder() };
        let place = run.folder.path().to_str().expect("text");
        // The shell stays, so that the screen does after the end of the program.
        let kept = format!("{line}; exec cat");
        screen.tmux(&[
            "-f",
            "/dev/null",
            "new-session",
            "-d",
            "-x",
            "200",
            "-y",
            "30",
            "-c",
            place,
            &kept,
        ]);
        screen
    }

    fn tmux(&self, arguments: &[&str]) -> String {
        let socket = self.folder.path().join("tmux");
        // Without a home, the program keeps its state in the folder of the test.
        let mut command = Command::new("tmux");
        command
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default());
        let output = command.arg("-S").arg(socket).args(arguments).output();
        let output = output.expect("tmux is installed: `cargo xtask test` does that");
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).expect("text")
    }

    /// Reads the screen until its lines meet a condition.
    fn shows(&self, is_there: impl Fn(&[&str]) -> bool) -> Vec<String> {
        let mut last = String::new();
        let shown = Deadline::within(PATIENCE).poll(|| {
            last = self.tmux(&["capture-pane", "-p"]);
            let lines: Vec<&str> = last.lines().filter(|line| !line.trim().is_empty()).collect();
            let shown = is_there(&lines).then(|| lines.into_iter().map(str::to_owned).collect());
            Ok(shown)
        });
        shown.expect("polled").unwrap_or_else(|| panic!("{last}"))
    }
}

impl Drop for TmuxScreen {
    fn drop(&mut self) {
        let socket = self.folder.path().join("tmux");
        // The screen may be gone already.
        let _gone = Command::new("tmux").arg("-S").arg(socket).arg("kill-server").output();
    }
}

// One call an hour: the second job of each tenant waits, and the run says for what after two seconds without an end.
// The sentence stays above the bars, which are drawn again and again below it, and it is said once.
#[test]
fn a_stalled_run_says_on_the_screen_of_tmux_what_it_waits_for() {
    let run = BulkRun::new("1/h", &jobs(&["acme", "bolt"], 2));
    let program = env!("CARGO_BIN_EXE_outflow");
    let screen = TmuxScreen::start(&run, &format!("{program} bulk run jobs.ndjson -o results.ndjson"));
    let waits = |line: &&str| line.starts_with("up: the limit of 1/h is used up, for another ");
    let bar = |line: &&str| line.trim_start().starts_with("all ");
    let is_drawn = |lines: &[&str]| lines.iter().any(waits) && lines.iter().any(bar);
    screen.shows(is_drawn);
    // A few redraws later.
    let later = Deadline::within(Duration::from_secs(2));
    let lines = screen.shows(|lines| later.remaining().is_zero() && is_drawn(lines));
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let said: Vec<usize> = (0..lines.len()).filter(|at| waits(&lines[*at])).collect();
    let bars: Vec<usize> = (0..lines.len()).filter(|at| bar(&lines[*at])).collect();
    assert_eq!((said.len(), bars.len()), (1, 1), "{lines:#?}");
    assert!(said[0] < bars[0], "{lines:#?}");
}
