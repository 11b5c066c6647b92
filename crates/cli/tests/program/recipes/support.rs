//! The program as a user starts it, and the programs of users that call it.
//!
//! A missing tool skips its test with a message, and fails it where `CI=true`.

use std::io::ErrorKind;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use outflow_testkit::{Output, Process};
use tempfile::TempDir;

use crate::support::root;

/// Longer than anything here takes on a machine that is busy with other tests.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);

pub(crate) const SECOND: Duration = Duration::from_secs(1);

/// A running program.
pub(crate) struct RunningProgram {
    pub(crate) process: Process,
    /// Address for calls.
    pub(crate) calls: String,
    /// Address of the admin API.
    pub(crate) admin: String,
    _folder: TempDir,
}

impl RunningProgram {
    /// Starts `outflow serve` with these APIs and these lines in `[server]`.
    pub(crate) fn serving(server: &str, apis: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let text = format!(
            "[log]\nlevel = \"error\"\n[server]\nlisten = \"127.0.0.1:0\"\n{server}\n\
             [admin]\nlisten = \"127.0.0.1:0\"\n{apis}\n"
        );
        std::fs::write(folder.path().join("outflow.toml"), text).expect("writable");
        Self::start(&["serve"], folder)
    }

    /// Starts `outflow serve` with the file of `outflow init`, in which a user wrote the address of an API.
    pub(crate) fn initialized(base_url: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let mut init = Command::new(env!("CARGO_BIN_EXE_outflow"));
        let init = init.arg("init").current_dir(folder.path()).output().expect("it starts");
        assert!(init.status.success(), "{init:?}");
        let file = folder.path().join("outflow.toml");
        let text = std::fs::read_to_string(&file).expect("written");
        let configured = text.replace("https://api.example.com", base_url);
        assert_ne!(text, configured, "the example has another address");
        std::fs::write(file, configured).expect("writable");
        Self::start(&["serve", "--listen", ":0", "--admin", ":0"], folder)
    }

    /// Starts `outflow dev` without its own load.
    pub(crate) fn dev() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let arguments = ["dev", "--no-load", "--port", "0", "--admin-port", "0"];
        Self::start(&arguments, folder)
    }

    fn start(arguments: &[&str], folder: TempDir) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_outflow"));
        command.args(arguments).current_dir(folder.path()).env_clear();
        let mut process = Process::start(command).expect("it starts");
        let mut place = |word| {
            let line = process.wait_for_line(word, PATIENCE).expect("a banner");
            let url = line.split_whitespace().nth(1).expect("a URL");
            let end = url.match_indices('/').nth(2).map_or(url.len(), |(at, _)| at);
            url[..end].to_owned()
        };
        let (calls, admin) = (place("  calls "), place("  operation "));
        Self {
            process,
            calls,
            admin,
            _folder: folder,
        }
    }
}

/// Builds a command of another program in the root of the workspace.
pub(crate) fn tool(name: &str) -> Command {
    let mut command = Command::new(name);
    command.current_dir(root());
    command
}

/// Builds a command that runs a recipe with its installed packages.
pub(crate) fn recipe(name: &str) -> Command {
    let file = root().join("docs/recipes").join(name);
    let mut command = match name.rsplit('.').next() {
        Some("py") => return python_program(&file.to_string_lossy()),
        Some("mjs") => tool("node"),
        _ => tool("sh"),
    };
    command.arg(file);
    command
}

/// Builds a command that runs a Python file of the workspace with the packages of the recipes.
pub(crate) fn python_program(file: &str) -> Command {
    let mut command = tool(&package_path("python/bin/python"));
    command.arg(file);
    command
}

/// Builds a command for a Node recipe that imports a package.
pub(crate) fn recipe_with_packages(name: &str) -> Option<Command> {
    node_program(&format!("docs/recipes/{name}"))
}

/// Builds a command that runs a Node file of the workspace with the packages of the recipes. Node looks for
/// packages next to a file and above it, so a symlink puts the file next to them.
pub(crate) fn node_program(file: &str) -> Option<Command> {
    let packages = package_path("node/node_modules/openai");
    if !Path::new(&packages).exists() {
        missing(&packages);
        return None;
    }
    let name = file.rsplit('/').next().unwrap_or(file);
    let link = package_path(&format!("node/{name}"));
    // The symlink may exist from the last run or from a concurrent test.
    let _there = std::os::unix::fs::symlink(root().join(file), &link);
    let mut command = tool("node");
    command
        .args(["--preserve-symlinks", "--preserve-symlinks-main"])
        .arg(link);
    Some(command)
}

/// Runs a program to a successful end and returns its output; `None` if it is not installed.
pub(crate) fn run_tool(command: Command) -> Option<String> {
    let mut process = start_tool(command)?;
    let ended = process.wait(PATIENCE).expect("an end");
    let all = process.last_lines(PATIENCE).to_vec();
    assert!(ended.success(), "{ended}: {all:#?}");
    let lines = all.into_iter().filter(|line| line.to == Output::Out);
    let lines: Vec<_> = lines.map(|line| line.text).collect();
    Some(lines.join("\n"))
}

/// Starts a program, if it is installed.
pub(crate) fn start_tool(command: Command) -> Option<Process> {
    let name = command.get_program().to_string_lossy().into_owned();
    match Process::start(command) {
        Ok(process) => Some(process),
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::NotFound, "{name}: {error}");
            missing(&name);
            None
        }
    }
}

fn missing(name: &str) {
    let ci = std::env::var("CI").is_ok_and(|ci| ci == "true");
    assert!(!ci, "{name} is missing");
    eprintln!("SKIPPED without {name}: `cargo xtask test` installs it");
}

/// Returns a path below the folder in which `cargo xtask test` installs packages.
fn package_path(path: &str) -> String {
    let path = root().join("target/recipes").join(path);
    path.to_string_lossy().into_owned()
}
