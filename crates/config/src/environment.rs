//! The variables of the environment that a configuration may read.
//!
//! The caller passes them in: a library that reads the environment of its process by itself can be
//! controlled by the process that starts it, and cannot be tested. `OUTFLOW_APIS__STOCK__TIMEOUT=5s`
//! sets `apis.stock.timeout`: two underscores separate levels; case and `-` make no difference. A value
//! is parsed as TOML if it is a number, a boolean, a list or a table, and is a text otherwise.

use std::collections::BTreeMap;
use std::fmt;

use toml::de::DeValue;

use super::collector::DiagnosticCollector;
use super::nesting_limit::{MAX_PARTS, find_deep_key};
use super::reader::ValueError;
use super::source::Source;
use super::tree::{SourceSpan, TextStart, TreeNode, TreeTable, TreeValue, convert_node};

/// Variables and their values.
///
/// ```
/// use outflow_config::Environment;
///
/// let environment = Environment::from_iter([("STOCK_KEY", "secret")]);
/// assert_eq!(environment.value("STOCK_KEY"), Some("secret"));
/// assert!(!format!("{environment:?}").contains("secret"));
/// ```
#[derive(Clone, Default)]
pub struct Environment(BTreeMap<String, String>);

impl Environment {
    /// Prefix of the variables that set a key.
    pub const PREFIX: &str = "OUTFLOW_";

    /// Returns an environment without variables.
    pub fn empty() -> Self {
        Self::default()
    }

    /// Returns the variables of this process. Variables that are not UTF-8 are left out.
    pub fn of_process() -> Self {
        let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        Self(std::env::vars_os().filter_map(text).collect())
    }

    /// Returns the value of a variable.
    pub fn value(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Iterates over the variables with this prefix: name, name without prefix, value.
    pub fn with_prefix<'e>(&'e self, prefix: &'e str) -> impl Iterator<Item = (&'e str, &'e str, &'e str)> {
        self.0.iter().filter_map(move |(name, value)| {
            let short = name.strip_prefix(prefix)?;
            Some((name.as_str(), short, value.as_str()))
        })
    }

    /// Returns every variable that names a key by its levels.
    pub fn overrides(&self, collector: &DiagnosticCollector) -> Vec<EnvVariable> {
        let ours = self.with_prefix(Self::PREFIX).filter_map(|(name, short, value)| {
            let levels: Vec<_> = short.split("__").map(str::to_lowercase).collect();
            // A deeper name belongs to another program or is hostile: no key of ours has its depth.
            let is_key = (2..=MAX_PARTS).contains(&levels.len());
            is_key.then(|| EnvVariable::new(name, value, levels, collector))
        });
        ours.collect()
    }
}

impl<N: Into<String>, V: Into<String>> FromIterator<(N, V)> for Environment {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(variables: I) -> Self {
        let owned = variables.into_iter().map(|(n, v)| (n.into(), v.into()));
        Self(owned.collect())
    }
}

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Names only: the values may be keys.
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// A variable that sets a key.
#[derive(Debug)]
pub struct EnvVariable {
    levels: Vec<String>,
    node: TreeNode,
}

impl EnvVariable {
    /// Creates a variable that sets the key at these levels, and adds it as a source.
    pub fn new(name: &str, value: &str, levels: Vec<String>, collector: &DiagnosticCollector) -> Self {
        let source = collector.add_source(Source::variable(name, value));
        Self {
            levels,
            node: parse_value(source, value),
        }
    }

    /// Returns the levels of its key.
    pub fn levels(&self) -> &[String] {
        &self.levels
    }

    /// Reports an error at its value.
    pub fn report(&self, key: &str, error: ValueError, collector: &DiagnosticCollector) {
        collector.report(self.node.at, key, error);
    }

    /// Returns the key and its value as a table, with names spelled as in `root`.
    pub fn into_table(self, root: &TreeTable) -> TreeTable {
        let mut below = Some(root);
        let mut levels = Vec::with_capacity(self.levels.len());
        for level in self.levels {
            let known = below.and_then(|table| table.iter().find(|e| is_same(&e.name, &level)));
            below = known.and_then(|entry| match &entry.node.value {
                TreeValue::Table(table) => Some(table),
                _ => None,
            });
            levels.push(known.map_or(level, |entry| entry.name.clone()));
        }
        let levels: Vec<_> = levels.iter().map(String::as_str).collect();
        TreeTable::nested(&levels, self.node)
    }
}

fn is_same(written: &str, level: &str) -> bool {
    written.to_lowercase().replace('-', "_") == level.replace('-', "_")
}

fn parse_value(source: usize, value: &str) -> TreeNode {
    let text = || TreeNode {
        value: TreeValue::Text(value.to_owned()),
        at: SourceSpan {
            source,
            start: 0,
            end: value.len(),
        },
    };
    let parsed = match find_deep_key(value) {
        Some(_) => None,
        None => DeValue::parse(value).ok(),
    };
    match parsed {
        Some(parsed) => match convert_node(TextStart::from_source(source), &parsed) {
            TreeNode {
                value: TreeValue::Date, ..
            } => text(),
            node => node,
        },
        None => text(),
    }
}
