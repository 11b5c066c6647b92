//! Values that an operator sets while the program runs.
//!
//! They form one more text above all other layers, so the same checks apply to them as to a file, and
//! their origin is known. They end with the program: a lasting value belongs in a file.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};

use toml::de::DeValue;

use super::nesting_limit::find_deep_key;
use super::source::Source;

/// Values set at run time, by the levels of their key.
///
/// ```
/// use outflow_config::RuntimeOverrides;
///
/// let mut overrides = RuntimeOverrides::default();
/// overrides.set(["apis", "stock", "timeout"], "3s");
/// assert!(!overrides.is_empty());
/// assert_eq!(overrides.source().name(), "runtime");
/// ```
#[derive(Clone, Default, PartialEq, Eq)]
pub struct RuntimeOverrides {
    values: BTreeMap<Vec<String>, String>,
}

impl RuntimeOverrides {
    /// Sets the key at these levels. The value is parsed like a variable of the environment; reading the
    /// configuration checks it.
    pub fn set<'l>(&mut self, levels: impl IntoIterator<Item = &'l str>, value: &str) {
        let levels = levels.into_iter().map(str::to_owned).collect();
        self.values.insert(levels, value.to_owned());
    }

    /// Removes the values whose levels `is_kept` rejects.
    pub fn retain(&mut self, is_kept: impl Fn(&[String]) -> bool) {
        self.values.retain(|levels, _| is_kept(levels));
    }

    /// Returns true if no value is set.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Returns all values as the text of the topmost layer.
    pub fn source(&self) -> Source {
        let mut text = String::new();
        for (levels, value) in &self.values {
            let path: Vec<_> = levels.iter().map(|level| quoted(level)).collect();
            let value = match find_deep_key(value) {
                None if DeValue::parse(value).is_ok() => value.clone(),
                _ => quoted(value),
            };
            // Writing to a string cannot fail.
            let _ok = writeln!(text, "{} = {value}", path.join("."));
        }
        Source::runtime(text)
    }
}

/// Prints the keys without the values: a value may be a secret.
impl fmt::Debug for RuntimeOverrides {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys = self.values.keys().map(|levels| levels.join("."));
        f.debug_set().entries(keys).finish()
    }
}

/// Returns a text as a TOML string.
///
/// ```
/// assert_eq!(outflow_config::quoted(r#"say "hi""#), r#""say \"hi\"""#);
/// ```
#[must_use]
pub fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for character in text.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            other if other.is_control() => {
                let _ok = write!(quoted, "\\U{:08X}", u32::from(other));
            }
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_prints_no_value() {
        let mut overrides = RuntimeOverrides::default();
        overrides.set(["apis", "stock", "auth", "value"], "canary-17");
        let shown = format!("{overrides:?}");
        assert!(shown.contains("auth.value") && !shown.contains("canary"), "{shown}");
    }
}
