//! Checks of the documents: every configuration is valid, every command is known, every link has a target,
//! and the guide works.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::serve::serve;
use super::support::{MockProcess, RunOutput, command, configured, fetch, folder, run_in};
use crate::support::root;

/// A page and its text.
struct DocPage {
    path: PathBuf,
    text: String,
}

/// A code block of a page in one language.
struct CodeBlock<'p> {
    page: &'p Path,
    line: usize,
    text: String,
}

impl DocPage {
    fn read(path: PathBuf) -> Self {
        let text = fs::read_to_string(&path).expect("readable");
        Self { path, text }
    }

    fn blocks(&self, language: &str) -> Vec<CodeBlock<'_>> {
        let opening = format!("```{language}");
        let mut blocks: Vec<CodeBlock<'_>> = Vec::new();
        // The state of a line: outside, in a block of another language, or in a wanted block.
        let (mut inside, mut wanted) = (false, false);
        for (at, line) in self.text.lines().enumerate() {
            if line.starts_with("```") {
                (inside, wanted) = (!inside, !inside && line == opening);
                if wanted {
                    blocks.push(CodeBlock {
                        page: &self.path,
                        line: at + 2,
                        text: String::new(),
                    });
                }
            } else if wanted {
                let block = blocks.last_mut().expect("one is open");
                block.text.extend([line, "\n"]);
            }
        }
        blocks
    }

    /// Returns the targets of its links.
    fn links(&self) -> impl Iterator<Item = &str> {
        let parts = self.text.split("](").skip(1);
        parts.filter_map(|part| part.split_once(')').map(|(target, _)| target))
    }

    /// Returns the anchors of its titles.
    fn anchors(&self) -> BTreeSet<String> {
        let titles = self.text.lines().filter(|line| line.starts_with('#'));
        let kept = |c: &char| c.is_alphanumeric() || *c == ' ' || *c == '-' || *c == '_';
        titles
            .map(|title| title.trim_start_matches('#').trim().to_lowercase())
            .map(|title| title.chars().filter(kept).collect::<String>())
            .map(|title| title.replace(' ', "-"))
            .collect()
    }
}

#[test]
fn every_documented_configuration_passes_the_check() {
    let pages = pages();
    let blocks: Vec<_> = pages.iter().flat_map(|page| page.blocks("toml")).collect();
    assert!(blocks.len() >= 12, "{} blocks were found", blocks.len());
    for block in blocks {
        let ran = checked(&block);
        let place = format!("{}:{}", block.page.display(), block.line);
        assert_eq!(ran.code, Some(0), "{place}: {}", ran.talk);
        assert!(ran.out.contains(" 0 warnings"), "{place}: {}", ran.talk);
    }
}

/// Checks a block with a value for every variable and file that it names for a secret.
fn checked(block: &CodeBlock<'_>) -> RunOutput {
    let folder = configured(&block.text);
    let mut check = command(folder.path(), &["check"]);
    for line in block.text.lines() {
        let Some((key, value)) = line.split_once(" = ") else {
            continue;
        };
        let value = value.split('"').nth(1).unwrap_or_default();
        if key.ends_with("_env") {
            check.env(value, "a-secret-of-a-test");
        }
        if key.ends_with("_file") {
            let file = folder.path().join(value);
            fs::create_dir_all(file.parent().expect("a folder")).expect("writable");
            fs::write(file, "a-secret-of-a-test\n").expect("writable");
        }
    }
    RunOutput::new(check.output().expect("the program starts"))
}

// A shell runs each command as its reader would. A wrapper appends `--help`, so the program parses the
// arguments and does nothing.
#[test]
fn the_program_knows_every_documented_command() {
    let bin = folder();
    let program = bin.path().join("outflow");
    let real = env!("CARGO_BIN_EXE_outflow");
    fs::write(&program, format!("#!/bin/sh\nexec '{real}' \"$@\" --help\n")).expect("writable");
    let made = Command::new("chmod").arg("+x").arg(&program).status();
    assert!(made.expect("it runs").success());
    let path = format!("{}:{}", bin.path().display(), std::env::var("PATH").unwrap_or_default());
    let pages = pages();
    let mut known = 0;
    for block in pages.iter().flat_map(|page| page.blocks("sh")) {
        for line in block.text.replace("\\\n", " ").lines().filter(|line| is_ours(line)) {
            let line = line.split(" > ").next().unwrap_or_default();
            let line = line.split(" < ").next().unwrap_or_default();
            let mut shell = Command::new("sh");
            shell.args(["-c", line]).env("PATH", &path);
            let ran = RunOutput::new(shell.output().expect("a shell"));
            let place = format!("{}:{}", block.page.display(), block.line);
            assert_eq!(ran.code, Some(0), "{place}: {line}: {}", ran.talk);
            known += 1;
        }
    }
    assert!(known >= 50, "{known} commands were found");
}

fn is_ours(line: &str) -> bool {
    line.starts_with("outflow ") || line.starts_with("OUTFLOW_")
}

#[test]
fn every_link_of_the_documents_has_a_target() {
    for page in pages() {
        for link in page.links().filter(|link| !link.contains("://")) {
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = if file.is_empty() {
                page.path.clone()
            } else {
                page.path.with_file_name("").join(file)
            };
            let place = page.path.display();
            assert!(target.exists(), "{place}: there is no {link}");
            let known = anchor.is_empty() || DocPage::read(target).anchors().contains(anchor);
            assert!(known, "{place}: there is no title for {link}");
        }
    }
}

// The first section with other ports: an API that allows 10/s, its configuration, and thirty calls at once.
#[test]
fn the_first_section_of_the_guide_works() {
    let guide = DocPage::read(root().join("docs/guide.md"));
    let mock = MockProcess::start(&["--limit", "10/s"]);
    let first = guide.blocks("toml").into_iter().next().expect("a block");
    let text = first.text.replace("http://127.0.0.1:9000", &mock.url);
    assert_ne!(text, first.text, "the guide says another address");
    let folder = configured(&text);
    assert_eq!(run_in(folder.path(), &["check"]).code, Some(0));
    let served = serve(&folder, &[]);
    let url = format!("{}/shop/orders/7", served.calls);
    std::thread::scope(|scope| {
        let calls: Vec<_> = (0..30).map(|_| scope.spawn(|| fetch(&url).0)).collect();
        for call in calls {
            assert_eq!(call.join().expect("answered"), 200);
        }
    });
    let explain = ["explain", "shop", "/orders/7", "--admin", &served.admin];
    let explained = run_in(folder.path(), &explain);
    assert_eq!(explained.code, Some(0), "{explained:?}");
    let seen = mock.end();
    assert_eq!((&seen["seen"], &seen["refused"]), (&30.into(), &0.into()));
}

/// Returns the code in a cell of a table; `None` for a cell without code.
fn code(cell: &str) -> Option<&str> {
    cell.trim().strip_prefix('`').and_then(|cell| cell.strip_suffix('`'))
}

// The table of operating variables, row by row, against the values in effect of both kinds of APIs.
#[test]
fn the_table_of_operating_variables_has_the_values_in_effect() {
    let page = DocPage::read(root().join("docs/configuration.md"));
    let folder = configured("[apis.plain]\nbase_url = \"https://plain.example\"\n[apis.tmdb]\npreset = \"tmdb\"\n");
    let shown = run_in(folder.path(), &["config", "show", "--json"]).json(0);
    let shown = shown["values"].as_array().expect("a list");
    let value = |api: &str, key: &str| {
        let key = format!("apis.{api}.{key}");
        let found = shown.iter().find(|value| value["key"] == *key);
        found.and_then(|value| value["value"].as_str())
    };
    let (_, section) = page.text.split_once("## Operating variables").expect("a section");
    let rows = section.lines().skip_while(|line| !line.starts_with("|---"));
    let rows = rows.skip(1).take_while(|line| line.starts_with('|'));
    let mut variables = Vec::new();
    for row in rows {
        let cells: Vec<_> = row.trim_matches('|').split('|').collect();
        let [variable, key, _, plain, tmdb] = cells.as_slice() else {
            panic!("{row}");
        };
        let key = code(key).expect("a key");
        assert_eq!(
            (code(plain), code(tmdb)),
            (value("plain", key), value("tmdb", key)),
            "{row}"
        );
        variables.push(code(variable).expect("a variable"));
    }
    // Those of the seed, in its order.
    let expected = "RATE_BASE BUCKET_CAP CONCURRENCY P_THROTTLE P_RECOVER N_THROTTLE N_CACHEONLY SLEEP_MIN SLEEP_MAX \
                    PROBE_SUCCESS COOLDOWN_FACTOR";
    assert_eq!(variables.join(" "), expected);
}

#[test]
fn the_readme_has_at_most_two_hundred_lines() {
    let lines = DocPage::read(root().join("README.md")).text.lines().count();
    assert!(lines <= 200, "{lines} lines");
}

fn pages() -> Vec<DocPage> {
    let root = root();
    let mut paths: Vec<_> = ["README.md", "SECURITY.md", "ARCHITECTURE.md", "CONTRIBUTING.md"]
        .map(|name| root.join(name))
        .into();
    for folder in ["docs", "docs/postman", "docs/recipes"] {
        let Ok(entries) = fs::read_dir(root.join(folder)) else {
            continue;
        };
        let entries = entries.map(|entry| entry.expect("an entry").path());
        paths.extend(entries.filter(|path| path.extension().is_some_and(|end| end == "md")));
    }
    paths.into_iter().map(DocPage::read).collect()
}
