//! What one file of formatted Rust declares: its tests that run, and its modules.
//!
//! Line by line, as a person would look for them; a parser would be exact and bring its own weight
//! of dependencies for the sake of four attributes.

use crate::tidy::tree::function_name;

/// The tests and modules of a file.
#[derive(Default)]
pub(super) struct Scan<'a> {
    pub(super) names: Vec<&'a str>,
    pub(super) modules: Vec<Module<'a>>,
}

/// A module in a file of its own, and where that is if it says so.
pub(super) struct Module<'a> {
    pub(super) name: &'a str,
    pub(super) path: Option<&'a str>,
}

impl<'a> Scan<'a> {
    /// Reads a whole file.
    pub(super) fn of(text: &'a str) -> Self {
        let mut found = Self::default();
        let mut marks = Marks::default();
        let mut skipped_to: Option<String> = None;
        for line in text.lines() {
            if let Some(end) = &skipped_to {
                if line.ends_with(end.as_str()) {
                    skipped_to = None;
                }
                continue;
            }
            let code = line.trim();
            if is_dead(code, "#![cfg(") {
                return Self::default();
            }
            marks.note(code);
            found.declare(code, &marks);
            skipped_to = skip(line, &marks);
            if skipped_to.is_some() || ends_an_item(code) {
                marks = Marks::default();
            }
        }
        found
    }

    fn declare(&mut self, code: &'a str, marks: &Marks<'a>) {
        if marks.dead {
            return;
        }
        if let Some(name) = module_name(code) {
            let path = marks.path;
            self.modules.push(Module { name, path });
        }
        let runs = marks.test && !marks.ignored;
        self.names.extend(function_name(code).filter(|_| runs));
    }
}

/// The attributes above the item that comes next.
#[derive(Default)]
struct Marks<'a> {
    test: bool,
    ignored: bool,
    /// Compiled for nobody who runs the tests.
    dead: bool,
    path: Option<&'a str>,
}

impl<'a> Marks<'a> {
    fn note(&mut self, code: &'a str) {
        self.test |= code == "#[test]" || code.starts_with("#[tokio::test");
        self.ignored |= code.starts_with("#[ignore")
            || code.starts_with("#[cfg_attr(") && code.contains("ignore");
        self.dead |= is_dead(code, "#[cfg(");
        let path = code.strip_prefix("#[path = \"");
        self.path = path.and_then(|path| path.strip_suffix("\"]")).or(self.path);
    }
}

/// True for a condition that no run of the tests is known to meet.
fn is_dead(code: &str, opening: &str) -> bool {
    let condition = code.strip_prefix(opening);
    condition.is_some_and(|rest| {
        !LIVE
            .iter()
            .any(|live| rest.strip_suffix(")]") == Some(live))
    })
}

/// The end of what must not be read: a comment, or the block of a dead item.
fn skip(line: &str, marks: &Marks<'_>) -> Option<String> {
    let code = line.trim_start();
    if code.starts_with("/*") && !code.contains("*/") {
        return Some("*/".to_owned());
    }
    let indent = line.len() - code.len();
    let opens = marks.dead && line.ends_with('{');
    opens.then(|| format!("{}}}", line.get(..indent).unwrap_or_default()))
}

/// After a function its attributes are used up; so they are after whatever ends on one line.
fn ends_an_item(code: &str) -> bool {
    let is_comment = code.starts_with("//");
    !is_comment && (function_name(code).is_some() || code.ends_with([';', '}', '{']))
}

fn module_name(code: &str) -> Option<&str> {
    let mut words = code;
    for qualifier in ["pub ", "pub(crate) ", "pub(super) "] {
        words = words.strip_prefix(qualifier).unwrap_or(words);
    }
    words.strip_prefix("mod ")?.strip_suffix(';')
}

/// The conditions under which `cargo xtask test` compiles, here or for the model checker.
const LIVE: [&str; 6] = [
    "test",
    "loom",
    "unix",
    "not(loom)",
    "any(test, loom)",
    "all(test, not(loom))",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<&str> {
        Scan::of(text).names
    }

    #[test]
    fn a_marked_function_runs() {
        for text in [
            "#[test]\nfn law() {\n",
            "#[tokio::test(start_paused = true)]\nasync fn law() {\n",
            "#[cfg(test)]\nmod tests {\n    #[test]\n    fn law() {\n",
            "#[cfg(unix)]\n#[test]\nfn law() {\n",
            "#[cfg(any())]\nuse x;\n#[test]\nfn law() {\n",
            "    #[test]\n    fn law / fn stress_law\n        (values()) = |v| v;\n",
        ] {
            assert_eq!(names(text), ["law"], "{text}");
        }
    }

    #[test]
    fn what_is_ignored_or_compiled_for_nobody_does_not_run() {
        for text in [
            "fn law() {\n",
            "#[test]\n#[ignore]\nfn law() {\n",
            "#[ignore = \"long run\"]\n#[test]\nfn law() {\n",
            "#[test]\n#[cfg_attr(unix, ignore)]\nfn law() {\n",
            "#[cfg(any())]\n#[test]\nfn law() {\n",
            "#[cfg(feature = \"never\")]\nmod tests {\n    #[test]\n    fn law() {\n    }\n}\n",
            "#![cfg(windows)]\n#[test]\nfn law() {\n",
            "/*\n#[test]\nfn law() {\n*/\n",
            "// #[test]\nfn law() {\n",
        ] {
            assert!(names(text).is_empty(), "{text}");
        }
        let dead_then_alive =
            "#[cfg(any())]\nmod old {\n    fn x() {\n    }\n}\n\n#[test]\nfn law() {\n";
        assert_eq!(names(dead_then_alive), ["law"]);
    }
}
