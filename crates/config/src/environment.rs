//! The variables of the environment that a configuration may read.
//!
//! They are handed in, never fetched: a library that reads the process's environment by itself can be
//! steered by whoever starts it, and tested by nobody. `OUTFLOW_APIS__STOCK__TIMEOUT=5s` sets
//! `apis.stock.timeout`: two underscores are one level down, capitals and `-` make no difference. A
//! value is read as TOML if it is a number, a boolean, a list or a table, and as text otherwise.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use toml::de::DeValue;

use super::collector::DiagnosticCollector;
use super::health::{VARIABLES, VariableUnit};
use super::nesting_limit::{MOST_PARTS, too_deep};
use super::reader::ValueError;
use super::source::Source;
use super::suggest::nearest;
use super::tree::{SourceSpan, TextStart, TreeNode, TreeTable, TreeValue, node_of};
use super::units::decimal_millionths;

/// Variables and their values.
///
/// ```
/// use outflow::config::{Config, Environment, Source};
///
/// let text = "[apis.stock]\nbase_url = \"https://stock.example\"\n";
/// let environment = Environment::from_iter([("OUTFLOW_APIS__STOCK__TIMEOUT", "5s")]);
/// let config = Config::read(&[Source::new("outflow.toml", text)], &environment)?;
/// assert_eq!(config.apis[0].timeouts.attempt.as_secs(), 5);
/// # Ok::<(), outflow::config::Mistakes>(())
/// ```
#[derive(Clone, Default)]
pub struct Environment(BTreeMap<String, String>);

impl Environment {
    /// No variables at all.
    pub fn empty() -> Self {
        Self::default()
    }

    /// The variables of this process. Those that are not text are left out.
    pub fn of_process() -> Self {
        let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        Self(std::env::vars_os().filter_map(text).collect())
    }

    /// The value of a variable.
    pub(super) fn value(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Every variable that names a key by its levels.
    pub(super) fn overrides(&self, book: &DiagnosticCollector) -> Vec<EnvVariable> {
        let ours = self.0.iter().filter_map(|(name, value)| {
            let levels = name.strip_prefix(PREFIX)?;
            let levels: Vec<_> = levels.split("__").map(str::to_lowercase).collect();
            // A variable for somebody else, or a hostile one: no key of ours is so deep.
            let ours = (2..=MOST_PARTS).contains(&levels.len());
            ours.then(|| EnvVariable::new(name, value, levels, book))
        });
        ours.collect()
    }

    /// Every variable that names an operating variable alone, for the one API that it can mean. The
    /// older names come first, so that ours speak last.
    pub(super) fn operating(
        &self,
        root: &TreeTable,
        book: &DiagnosticCollector,
    ) -> Vec<EnvVariable> {
        let mut found = Vec::new();
        for (prefix, apis) in [
            (OLDER_PREFIX, tmdb_apis(root)),
            (PREFIX, meant_by_default(root)),
        ] {
            for (name, value) in &self.0 {
                let Some(short) = name.strip_prefix(prefix) else {
                    continue;
                };
                if short.contains("__") {
                    continue;
                }
                match levels_of(short) {
                    Some(levels) => found.extend(for_apis(&apis, (name, value), &levels, book)),
                    None => warn_if_near((name, value), short, book),
                }
            }
        }
        found
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
        // Names alone: the values are where the keys are.
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// A variable that sets a key.
#[derive(Debug)]
pub(super) struct EnvVariable {
    levels: Vec<String>,
    node: TreeNode,
}

impl EnvVariable {
    fn new(name: &str, value: &str, levels: Vec<String>, book: &DiagnosticCollector) -> Self {
        let source = book.add(Source::variable(name, value));
        Self {
            levels,
            node: read(source, value),
        }
    }

    /// True for `apis.NAME.preset`, which decides what everything else is laid over.
    pub(super) fn names_a_preset(&self) -> bool {
        matches!(self.levels.as_slice(), [apis, _, preset] if apis == "apis" && preset == "preset")
    }

    /// The key and its value as a table, with names spelled as they are in `root`.
    pub(super) fn into_table(self, root: &TreeTable) -> TreeTable {
        let mut below = Some(root);
        let mut levels = Vec::with_capacity(self.levels.len());
        for level in self.levels {
            let known = below.and_then(|table| table.iter().find(|e| same(&e.name, &level)));
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

fn same(written: &str, level: &str) -> bool {
    written.to_lowercase().replace('-', "_") == level.replace('-', "_")
}

fn read(source: usize, value: &str) -> TreeNode {
    let text = || TreeNode {
        value: TreeValue::Text(value.to_owned()),
        at: SourceSpan {
            source,
            start: 0,
            end: value.len(),
        },
    };
    let parsed = match too_deep(value) {
        Some(_) => None,
        None => DeValue::parse(value).ok(),
    };
    match parsed {
        Some(parsed) => match node_of(TextStart::from_source(source), &parsed) {
            TreeNode {
                value: TreeValue::Date,
                ..
            } => text(),
            node => node,
        },
        None => text(),
    }
}

/// Where an operating variable belongs within its API, and what it is measured in.
pub(super) fn levels_of(short: &str) -> Option<(Vec<&'static str>, VariableUnit)> {
    let short = short.to_lowercase();
    let health = VARIABLES.iter().find(|(name, _)| *name == short);
    match short.as_str() {
        "rate_base" => Some((vec!["rate_base"], VariableUnit::Other)),
        "bucket_cap" | "bucket_capacity" => Some((vec!["bucket_capacity"], VariableUnit::Count)),
        "concurrency" => Some((vec!["concurrency"], VariableUnit::Count)),
        _ => health.map(|(name, measure)| (vec!["health", *name], *measure)),
    }
}

fn for_apis(
    apis: &[String],
    (name, value): (&str, &str),
    (levels, measure): &(Vec<&'static str>, VariableUnit),
    book: &DiagnosticCollector,
) -> Vec<EnvVariable> {
    let value = with_unit(value.trim(), *measure);
    let value = value.as_ref();
    if apis.is_empty() && name.starts_with(PREFIX) {
        let lone = EnvVariable::new(name, value, Vec::new(), book);
        let wrong = ValueError::new("it is not clear which API this is about");
        let help = format!(
            "name it: `OUTFLOW_APIS__NAME__{}`",
            levels.join("__").to_uppercase()
        );
        book.report(lone.node.at, &levels.join("."), wrong.help(help));
    }
    apis.iter()
        .map(|api| {
            let mut path = vec!["apis".to_owned(), api.clone()];
            path.extend(levels.iter().map(|level| (*level).to_owned()));
            EnvVariable::new(name, value, path, book)
        })
        .collect()
}

/// These variables were told in plain numbers before, so a number alone is still one of seconds.
pub(super) fn with_unit(value: &str, measure: VariableUnit) -> Cow<'_, str> {
    match measure {
        VariableUnit::Time if decimal_millionths(value).is_some() => {
            Cow::Owned(format!("{value}s"))
        }
        VariableUnit::Count => Cow::Borrowed(value.strip_suffix(".0").unwrap_or(value)),
        VariableUnit::Time | VariableUnit::Other => Cow::Borrowed(value),
    }
}

/// A variable that is nearly one of ours was hardly meant for somebody else.
fn warn_if_near((name, value): (&str, &str), short: &str, book: &DiagnosticCollector) {
    let own = ["rate_base", "bucket_capacity", "concurrency"];
    let known = VARIABLES.iter().map(|(name, _)| *name).chain(own);
    if let Some(near) = nearest(short, known) {
        let lone = EnvVariable::new(name, value, Vec::new(), book);
        let prefix = name.strip_suffix(short).unwrap_or(PREFIX);
        let wrong = ValueError::warning(format!("the variable `{name}` sets nothing"));
        let help = format!("did you mean `{prefix}{}`?", near.to_uppercase());
        book.report(lone.node.at, "", wrong.help(help));
    }
}

fn tmdb_apis(root: &TreeTable) -> Vec<String> {
    let apis = root.table("apis").into_iter().flat_map(TreeTable::iter);
    let is_tmdb = |node: &TreeNode| match &node.value {
        TreeValue::Table(api) => api.entry("preset").is_some_and(
            |preset| matches!(&preset.node.value, TreeValue::Text(name) if name == "tmdb"),
        ),
        _ => false,
    };
    apis.filter(|entry| is_tmdb(&entry.node))
        .map(|entry| entry.name.clone())
        .collect()
}

/// The only API, or those of the preset that these variables were invented for.
fn meant_by_default(root: &TreeTable) -> Vec<String> {
    let apis = root.table("apis").into_iter().flat_map(TreeTable::iter);
    let mut names: Vec<_> = apis.map(|entry| entry.name.clone()).collect();
    if names.len() != 1 {
        names = tmdb_apis(root);
    }
    names
}

const PREFIX: &str = "OUTFLOW_";

/// The names that the operating variables had before.
const OLDER_PREFIX: &str = "ANIVAULT_";
