//! Where each value in effect came from.
//!
//! Four texts may speak of the same key, and "why is it ten seconds?" is the first question of anyone
//! who looks at a running program. The answer is kept while reading, because afterwards nobody knows.

use std::collections::BTreeMap;
use std::fmt;

/// Where a value came from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Origin {
    /// Nobody said anything.
    Default,
    /// A preset said it.
    Preset {
        /// The preset.
        name: String,
        /// The line in it.
        line: usize,
    },
    /// A text said it.
    Text {
        /// The file's name, as a rule.
        name: String,
        /// The line in it.
        line: usize,
    },
    /// A variable of the environment said it.
    Environment {
        /// The variable.
        variable: String,
    },
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::Preset { name, line } => write!(f, "preset {name}:{line}"),
            Self::Text { name, line } => write!(f, "{name}:{line}"),
            Self::Environment { variable } => write!(f, "environment {variable}"),
        }
    }
}

/// The origin of every key that was read.
///
/// ```
/// use outflow::config::{Config, Environment, Source};
///
/// let text = "[apis.stock]\nbase_url = \"https://stock.example\"\n";
/// let config = Config::read(&[Source::new("outflow.toml", text)], &Environment::empty())?;
/// let origin = |key| config.origins.of(key).unwrap().to_string();
/// assert_eq!(origin("apis.stock.base_url"), "outflow.toml:2");
/// assert_eq!(origin("apis.stock.timeout"), "default");
/// # Ok::<(), outflow::config::Mistakes>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Origins(BTreeMap<String, Origin>);

impl Origins {
    /// Where the value of a key came from; `None` if there is no such key.
    pub fn of(&self, key: &str) -> Option<&Origin> {
        self.0.get(key)
    }

    /// Every key and its origin, in the order of the keys.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Origin)> {
        self.0.iter().map(|(key, origin)| (key.as_str(), origin))
    }

    pub(super) fn note(&mut self, key: String, origin: Origin) {
        self.0.insert(key, origin);
    }
}
