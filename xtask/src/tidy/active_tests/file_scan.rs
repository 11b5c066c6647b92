//! Active tests and modules of one formatted Rust file.
//!
//! The scan works line by line. A parser would be exact, and would add dependencies for the sake of
//! four attributes.

use crate::tidy::tree::function_name;

/// Declarations of one file.
#[derive(Default)]
pub(super) struct FileScan<'a> {
    /// Names of tests that run.
    pub(super) tests: Vec<&'a str>,
    /// Names of modules in their own files.
    pub(super) modules: Vec<&'a str>,
}

impl<'a> FileScan<'a> {
    /// Scans a whole file.
    pub(super) fn new(text: &'a str) -> Self {
        let mut scan = Self::default();
        let mut attributes = ItemAttributes::default();
        let mut skip_until: Option<String> = None;
        for line in text.lines() {
            if let Some(end) = &skip_until {
                if line.ends_with(end.as_str()) {
                    skip_until = None;
                }
                continue;
            }
            let code = line.trim();
            if is_false_condition(code, "#![cfg(") {
                return Self::default();
            }
            attributes.read_line(code);
            scan.read_line(code, &attributes);
            skip_until = skipped_end(line, &attributes);
            if skip_until.is_some() || ends_item(code) {
                attributes = ItemAttributes::default();
            }
        }
        scan
    }

    fn read_line(&mut self, code: &'a str, attributes: &ItemAttributes) {
        if attributes.disabled {
            return;
        }
        self.modules.extend(module_name(code));
        let runs = attributes.test && !attributes.ignored;
        self.tests.extend(function_name(code).filter(|_| runs));
    }
}

/// Attributes above the next item.
#[derive(Default)]
struct ItemAttributes {
    test: bool,
    ignored: bool,
    /// A condition excludes the item from every test run.
    disabled: bool,
}

impl ItemAttributes {
    fn read_line(&mut self, code: &str) {
        self.test |= code == "#[test]" || code.starts_with("#[tokio::test");
        self.ignored |= code.starts_with("#[ignore") || code.starts_with("#[cfg_attr(") && code.contains("ignore");
        self.disabled |= is_false_condition(code, "#[cfg(");
    }
}

/// Returns true for a condition that may be false in a test run.
fn is_false_condition(code: &str, opening: &str) -> bool {
    let condition = code.strip_prefix(opening);
    condition.is_some_and(|rest| {
        let inner = rest.strip_suffix(")]");
        inner.is_none_or(|inner| !TRUE_CONDITIONS.contains(&inner))
    })
}

/// Returns the end of a skipped part: a comment, or the block of a disabled item.
fn skipped_end(line: &str, attributes: &ItemAttributes) -> Option<String> {
    let code = line.trim_start();
    if code.starts_with("/*") && !code.contains("*/") {
        return Some("*/".to_owned());
    }
    let indent = line.len() - code.len();
    let is_block = attributes.disabled && line.ends_with('{');
    is_block.then(|| format!("{}}}", line.get(..indent).unwrap_or_default()))
}

/// Returns true if the line ends an item, and with it the effect of the attributes above.
fn ends_item(code: &str) -> bool {
    let is_comment = code.starts_with("//");
    !is_comment && (function_name(code).is_some() || code.ends_with([';', '}', '{']))
}

fn module_name(code: &str) -> Option<&str> {
    let mut rest = code;
    for qualifier in ["pub ", "pub(crate) ", "pub(super) "] {
        rest = rest.strip_prefix(qualifier).unwrap_or(rest);
    }
    rest.strip_prefix("mod ")?.strip_suffix(';')
}

/// Conditions that `cargo xtask test` meets, in the tests or in the model check.
const TRUE_CONDITIONS: [&str; 6] = [
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

    fn tests_of(text: &str) -> Vec<&str> {
        FileScan::new(text).tests
    }

    #[test]
    fn a_test_function_is_active() {
        for text in [
            "#[test]\nfn law() {\n",
            "#[tokio::test(start_paused = true)]\nasync fn law() {\n",
            "#[cfg(test)]\nmod tests {\n    #[test]\n    fn law() {\n",
            "#[cfg(unix)]\n#[test]\nfn law() {\n",
            "#[cfg(any())]\nuse x;\n#[test]\nfn law() {\n",
            "    #[test]\n    fn law / fn stress_law\n        (values()) = |v| v;\n",
        ] {
            assert_eq!(tests_of(text), ["law"], "{text}");
        }
    }

    #[test]
    fn ignored_and_disabled_functions_are_inactive() {
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
            assert!(tests_of(text).is_empty(), "{text}");
        }
        let after_disabled = "#[cfg(any())]\nmod old {\n    fn x() {\n    }\n}\n\n#[test]\nfn law() {\n";
        assert_eq!(tests_of(after_disabled), ["law"]);
    }
}
