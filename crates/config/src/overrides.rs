//! Variables that are set while the program runs.
//!
//! They are written down as one more text that lies over all others and is read with them: so a value
//! that is set by hand meets the same checks as one in a file, and is told apart by its origin. They are
//! forgotten when the program ends: what should stay belongs into the file.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};

use toml::de::DeValue;

use super::environment::{levels_of, with_unit};
use super::nesting_limit::too_deep;
use super::source::Source;

/// What was set while the program runs, by API and key.
///
/// ```
/// use outflow::config::{Config, Environment, Runtime, Source};
///
/// let file = Source::new("outflow.toml", "[apis.stock]\nbase_url = \"https://stock.example\"\n");
/// let mut runtime = Runtime::default();
/// runtime.set("stock", "p_throttle", "0.2");
/// runtime.set("stock", "timeout", "3s");
/// let config = Config::read(&[file, runtime.source()], &Environment::empty())?;
/// let origin = config.origins.of("apis.stock.health.p_throttle").unwrap();
/// assert_eq!(origin.to_string(), "runtime");
/// # Ok::<(), outflow::config::Mistakes>(())
/// ```
#[derive(Clone, Default, PartialEq, Eq)]
pub struct RuntimeOverrides {
    values: BTreeMap<(String, String), String>,
}

impl RuntimeOverrides {
    /// Sets a variable of an API: an operating variable by its name alone, anything else by its key
    /// below the API, such as `groups.orders.limits`. The value is read as in a variable of the
    /// environment. Whether it is a good one is found when the configuration is read.
    pub fn set(&mut self, api: &str, variable: &str, value: &str) {
        let operating = levels_of(variable);
        let (key, value) = match &operating {
            Some((levels, measure)) => (levels.join("."), with_unit(value.trim(), *measure)),
            None => (variable.to_owned(), value.trim().into()),
        };
        self.values
            .insert((api.to_owned(), key), value.into_owned());
    }

    /// Forgets what was set of APIs that there are no more.
    pub fn keep_only(&mut self, is_known: impl Fn(&str) -> bool) {
        self.values.retain(|(api, _), _| is_known(api));
    }

    /// True if nothing was set.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// All of it as the text that lies over all others.
    pub fn source(&self) -> Source {
        let mut text = String::new();
        for ((api, key), value) in &self.values {
            let parts = ["apis", api].into_iter().chain(key.split('.'));
            let path: Vec<_> = parts.map(quoted).collect();
            let value = match too_deep(value) {
                None if DeValue::parse(value).is_ok() => value.clone(),
                _ => quoted(value),
            };
            // A string takes all.
            let _whole = writeln!(text, "{} = {value}", path.join("."));
        }
        Source::runtime(text)
    }
}

/// Shows what was set and not to what: a key or a URL with a password in it can be set too.
impl fmt::Debug for RuntimeOverrides {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.values.keys()).finish()
    }
}

/// A text as TOML writes it, whatever is in it.
///
/// ```
/// assert_eq!(outflow::config::quoted(r#"say "hi""#), r#""say \"hi\"""#);
/// ```
#[must_use]
pub fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for character in text.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            other if other.is_control() => {
                let _whole = write!(quoted, "\\U{:08X}", u32::from(other));
            }
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::super::{Config, Environment};
    use super::*;

    #[test]
    fn a_value_is_not_shown() {
        let mut runtime = RuntimeOverrides::default();
        runtime.set("stock", "auth.value", "canary-17");
        let shown = format!("{runtime:?}");
        assert!(
            shown.contains("auth.value") && !shown.contains("canary"),
            "{shown}"
        );
    }

    fn file() -> Source {
        Source::new(
            "outflow.toml",
            "[apis.stock]\nbase_url = \"https://stock.example\"\ntimeout = \"9s\"\n",
        )
    }

    // The file says nine seconds, the environment eight, and whoever sits before it three.
    #[test]
    fn what_is_set_by_hand_lies_over_the_environment() {
        let mut runtime = RuntimeOverrides::default();
        runtime.set("stock", "timeout", "3s");
        runtime.set("stock", "SLEEP_MIN", "2.5");
        let variables = [("OUTFLOW_APIS__STOCK__TIMEOUT", "8s")];
        let environment = Environment::from_iter(variables);
        let config = Config::read(&[file(), runtime.source()], &environment).expect("valid");
        assert_eq!(config.apis[0].timeouts.attempt.as_secs(), 3);
        let origin = |key: &str| config.origins.get(key).map(|origin| origin.to_string());
        assert_eq!(origin("apis.stock.timeout").as_deref(), Some("runtime"));
        let sleep = origin("apis.stock.health.sleep_min");
        assert_eq!(sleep.as_deref(), Some("runtime"));
    }

    #[test]
    fn nonsense_is_a_mistake_and_never_another_key() {
        for (variable, value) in [
            ("timeout", "1s\"\n[apis.evil]\nbase_url = \"http://evil\""),
            ("no_such_thing", "1"),
            ("p_throttle = 1\ntimeout", "1s"),
            ("limits", "[[[["),
            ("timeout", "\u{0}\u{7f}"),
        ] {
            let mut runtime = RuntimeOverrides::default();
            runtime.set("stock", variable, value);
            let read = Config::read(&[file(), runtime.source()], &Environment::empty());
            let mistakes = read.expect_err(value);
            assert!(
                mistakes.iter().all(|mistake| mistake.source == "runtime"),
                "{mistakes}"
            );
        }
    }
}
