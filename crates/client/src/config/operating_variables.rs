//! Variables of the health machine and the limits that can be set by their name alone.
//!
//! `OUTFLOW_SLEEP_MIN=5` sets `health.sleep_min` of the only API. With several APIs it applies to those of
//! the preset `tmdb`, for which these variables were introduced. An operator sets them by the same names.

use std::borrow::Cow;

use outflow_config::{
    DiagnosticCollector, EnvVariable, Environment, RuntimeOverrides, TreeNode, TreeTable, TreeValue, ValueError,
    decimal_millionths, nearest_name,
};

use super::health::{SPANS, VARIABLES};

/// Sets a variable of an API at run time: an operating variable by its name alone, any other key by its
/// path below the API, such as `groups.orders.limits`.
///
/// ```
/// use outflow::config::{Config, Environment, RuntimeOverrides, Source, set_variable};
///
/// let file = Source::new("outflow.toml", "[apis.stock]\nbase_url = \"https://stock.example\"\n");
/// let mut overrides = RuntimeOverrides::default();
/// set_variable(&mut overrides, "stock", "p_throttle", "0.2");
/// set_variable(&mut overrides, "stock", "timeout", "3s");
/// let config = Config::read(&[file, overrides.source()], &Environment::empty())?;
/// let origin = config.origins.get("apis.stock.health.p_throttle").unwrap();
/// assert_eq!(origin.to_string(), "runtime");
/// # Ok::<(), outflow::config::Diagnostics>(())
/// ```
pub fn set_variable(overrides: &mut RuntimeOverrides, api: &str, variable: &str, value: &str) {
    let parent = ["apis", api].into_iter();
    match find_variable(variable) {
        Some((levels, unit)) => {
            overrides.set(parent.chain(levels), &with_unit(value.trim(), unit));
        }
        // A misspelt variable of the health machine: its section knows the name that is meant.
        None if nearest_name(variable, VARIABLES.into_iter()).is_some() => {
            overrides.set(parent.chain(["health", variable]), value.trim());
        }
        None => overrides.set(parent.chain(variable.split('.')), value.trim()),
    }
}

/// Removes the run-time values of APIs that `is_known` rejects.
pub fn retain_apis(overrides: &mut RuntimeOverrides, is_known: impl Fn(&str) -> bool) {
    overrides.retain(|levels| levels.get(1).is_some_and(|api| is_known(api)));
}

/// Returns every variable of the environment that names an operating variable alone. The older names come
/// first, so that ours replace them.
pub(super) fn find(environment: &Environment, root: &TreeTable, collector: &DiagnosticCollector) -> Vec<EnvVariable> {
    let mut found = Vec::new();
    for (prefix, apis) in [
        (OLDER_PREFIX, tmdb_apis(root)),
        (Environment::PREFIX, default_apis(root)),
    ] {
        for (name, short, value) in environment.with_prefix(prefix) {
            if short.contains("__") {
                continue;
            }
            match find_variable(short) {
                Some((levels, unit)) => {
                    let value = with_unit(value.trim(), unit);
                    let variable = |path| EnvVariable::new(name, &value, path, collector);
                    if apis.is_empty() && prefix == Environment::PREFIX {
                        report_unclear(&variable(Vec::new()), &levels, collector);
                    }
                    found.extend(apis.iter().map(|api| variable(key_path(api, &levels))));
                }
                None => warn_if_near(name, short, value, collector),
            }
        }
    }
    found
}

/// Unit of a variable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum VariableUnit {
    /// Time; a plain number is seconds.
    Time,
    /// A whole number, which may end in `.0`.
    Count,
    /// Anything else.
    Other,
}

/// Returns the levels of an operating variable within its API, and its unit.
fn find_variable(short: &str) -> Option<(Vec<&'static str>, VariableUnit)> {
    let short = short.to_lowercase();
    match short.as_str() {
        "rate_base" => Some((vec!["rate_base"], VariableUnit::Other)),
        "bucket_cap" | "bucket_capacity" => Some((vec!["bucket_capacity"], VariableUnit::Count)),
        "concurrency" => Some((vec!["concurrency"], VariableUnit::Count)),
        name => {
            let unit = if SPANS.contains(&name) {
                VariableUnit::Time
            } else {
                VariableUnit::Other
            };
            let known = VARIABLES.into_iter().find(|known| *known == name);
            known.map(|name| (vec!["health", name], unit))
        }
    }
}

fn key_path(api: &str, levels: &[&str]) -> Vec<String> {
    let path = ["apis", api].into_iter().chain(levels.iter().copied());
    path.map(str::to_owned).collect()
}

fn report_unclear(variable: &EnvVariable, levels: &[&str], collector: &DiagnosticCollector) {
    let error = ValueError::new("it is not clear which API this is about");
    let help = format!("name it: `OUTFLOW_APIS__NAME__{}`", levels.join("__").to_uppercase());
    variable.report(&levels.join("."), error.help(help), collector);
}

/// Adds the unit that a plain number leaves out: earlier versions took these variables as seconds.
fn with_unit(value: &str, unit: VariableUnit) -> Cow<'_, str> {
    match unit {
        VariableUnit::Time if decimal_millionths(value).is_some() => Cow::Owned(format!("{value}s")),
        VariableUnit::Count => Cow::Borrowed(value.strip_suffix(".0").unwrap_or(value)),
        VariableUnit::Time | VariableUnit::Other => Cow::Borrowed(value),
    }
}

/// Warns of a name that is nearly one of ours: it is probably not meant for another program.
fn warn_if_near(name: &str, short: &str, value: &str, collector: &DiagnosticCollector) {
    let own = ["rate_base", "bucket_capacity", "concurrency"];
    let known = VARIABLES.into_iter().chain(own);
    if let Some(near) = nearest_name(short, known) {
        let variable = EnvVariable::new(name, value, Vec::new(), collector);
        let prefix = name.strip_suffix(short).unwrap_or(Environment::PREFIX);
        let warning = ValueError::warning(format!("the variable `{name}` sets nothing"));
        let help = format!("did you mean `{prefix}{}`?", near.to_uppercase());
        variable.report("", warning.help(help), collector);
    }
}

fn tmdb_apis(root: &TreeTable) -> Vec<String> {
    let apis = root.table("apis").into_iter().flat_map(TreeTable::iter);
    let is_tmdb = |node: &TreeNode| match &node.value {
        TreeValue::Table(api) => api
            .entry("preset")
            .is_some_and(|preset| matches!(&preset.node.value, TreeValue::Text(name) if name == "tmdb")),
        _ => false,
    };
    apis.filter(|entry| is_tmdb(&entry.node))
        .map(|entry| entry.name.clone())
        .collect()
}

/// Returns the only API, or the APIs of the preset `tmdb`.
fn default_apis(root: &TreeTable) -> Vec<String> {
    let apis = root.table("apis").into_iter().flat_map(TreeTable::iter);
    let mut names: Vec<_> = apis.map(|entry| entry.name.clone()).collect();
    if names.len() != 1 {
        names = tmdb_apis(root);
    }
    names
}

/// Prefix of the operating variables in earlier versions.
const OLDER_PREFIX: &str = "ANIVAULT_";

#[cfg(test)]
mod tests {
    use outflow_config::Source;

    use super::super::Config;
    use super::*;

    fn file() -> Source {
        Source::new(
            "outflow.toml",
            "[apis.stock]\nbase_url = \"https://stock.example\"\ntimeout = \"9s\"\n",
        )
    }

    // The file sets nine seconds, the environment eight, and the operator three.
    #[test]
    fn a_runtime_value_replaces_the_environments() {
        let mut overrides = RuntimeOverrides::default();
        set_variable(&mut overrides, "stock", "timeout", "3s");
        set_variable(&mut overrides, "stock", "SLEEP_MIN", "2.5");
        let variables = [("OUTFLOW_APIS__STOCK__TIMEOUT", "8s")];
        let environment = Environment::from_iter(variables);
        let config = Config::read(&[file(), overrides.source()], &environment).expect("valid");
        assert_eq!(config.apis[0].timeouts.attempt.as_secs(), 3);
        let origin = |key: &str| config.origins.get(key).map(|origin| origin.to_string());
        assert_eq!(origin("apis.stock.timeout").as_deref(), Some("runtime"));
        let sleep = origin("apis.stock.health.sleep_min");
        assert_eq!(sleep.as_deref(), Some("runtime"));
    }

    #[test]
    fn an_invalid_runtime_value_is_an_error_and_never_another_key() {
        for (variable, value) in [
            ("timeout", "1s\"\n[apis.evil]\nbase_url = \"http://evil\""),
            ("no_such_thing", "1"),
            ("p_throttle = 1\ntimeout", "1s"),
            ("limits", "[[[["),
            ("timeout", "\u{0}\u{7f}"),
        ] {
            let mut overrides = RuntimeOverrides::default();
            set_variable(&mut overrides, "stock", variable, value);
            let read = Config::read(&[file(), overrides.source()], &Environment::empty());
            let diagnostics = read.expect_err(value);
            assert!(diagnostics.iter().all(|one| one.source == "runtime"), "{diagnostics}");
        }
    }
}
