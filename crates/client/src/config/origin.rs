//! Where each value in effect came from.
//!
//! Four texts may speak of the same key, and "why is it ten seconds?" is the first question of anyone
//! who looks at a running program. The answer is kept while reading, because afterwards nobody knows.

use std::fmt;
use std::sync::Arc;

use super::notes::{Notes, Place};
use super::source::Kind;

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
    /// Somebody set it while the program runs.
    Runtime,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::Preset { name, line } => write!(f, "preset {name}:{line}"),
            Self::Text { name, line } => write!(f, "{name}:{line}"),
            Self::Environment { variable } => write!(f, "environment {variable}"),
            Self::Runtime => f.write_str("runtime"),
        }
    }
}

/// The origin of every key that was written, and of every key of an API or the program that was not.
///
/// ```
/// use outflow::config::{Config, Environment, Source};
///
/// let text = "[apis.stock]\nbase_url = \"https://stock.example\"\n";
/// let config = Config::read(&[Source::new("outflow.toml", text)], &Environment::empty())?;
/// let origin = |key| config.origins.of(key).unwrap().to_string();
/// assert_eq!(origin("apis.stock.base_url"), "outflow.toml:2");
/// assert_eq!(origin("apis.stock.timeout"), "default");
/// let written = config.origins.written("apis.stock.base_url");
/// assert_eq!(written, Some("\"https://stock.example\""));
/// # Ok::<(), outflow::config::Mistakes>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Origins {
    kept: Arc<Kept>,
}

/// What all clones share: nobody changes it after the reading.
#[derive(PartialEq, Eq, Debug, Default)]
struct Kept {
    notes: Notes,
    /// Every source that was read; many keys share one name.
    sources: Vec<(Kind, String)>,
}

impl Origins {
    /// Where the value of a key came from; `None` if there is no such key.
    pub fn of(&self, key: &str) -> Option<Origin> {
        let noted = self.kept.notes.find(key)?;
        Some(self.origin(noted.place))
    }

    /// Every key and its origin, in the order of the keys.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Origin)> {
        let notes = self.kept.notes.iter();
        notes.map(|noted| (noted.key, self.origin(noted.place)))
    }

    /// The value of a key as it was written, on one line and without secrets; `None` where nobody wrote
    /// one and the default holds.
    pub fn written(&self, key: &str) -> Option<&str> {
        let noted = self.kept.notes.find(key)?;
        (noted.place != Place::Nowhere).then_some(noted.written)
    }

    /// What was noted while these sources were read.
    pub(super) fn new(notes: Notes, sources: Vec<(Kind, String)>) -> Self {
        let notes = notes.in_order();
        Self {
            kept: Arc::new(Kept { notes, sources }),
        }
    }

    fn origin(&self, place: Place) -> Origin {
        let Place::Line { source, line } = place else {
            return Origin::Default;
        };
        let whole = |number: u32| usize::try_from(number).unwrap_or(usize::MAX);
        let (source, line) = (whole(source), whole(line));
        let Some((kind, name)) = self.kept.sources.get(source) else {
            return Origin::Default;
        };
        let name = name.clone();
        match kind {
            Kind::Text => Origin::Text { name, line },
            Kind::Preset => Origin::Preset { name, line },
            Kind::Variable => Origin::Environment { variable: name },
            Kind::Runtime => Origin::Runtime,
        }
    }
}
