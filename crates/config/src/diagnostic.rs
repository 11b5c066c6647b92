//! What is wrong with a configuration, all of it at once.
//!
//! One who is told one mistake at a time runs the program once for each. So every mistake is kept, with
//! its place and what to write instead, and shown together; a program can also go through them as
//! values, or write them as JSON. No mistake holds a secret: the lines it shows were scrubbed first.

use std::fmt;
use std::slice;

use serde::Serialize;

use super::render::{self, RenderStyle};
use super::source::SourceExcerpt;

/// One thing that is wrong.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Diagnostic {
    /// How bad it is.
    pub severity: DiagnosticSeverity,
    /// The file, preset or variable that it is in.
    pub source: String,
    /// The line, beginning at 1.
    pub line: usize,
    /// The character in the line, beginning at 1.
    pub column: usize,
    /// The key, such as `apis.stock.timeout`; empty if it is about no key.
    pub key: String,
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub help: Option<String>,
    #[serde(skip)]
    pub(super) excerpt: SourceExcerpt,
    /// The source's number and the offset in it, by which mistakes are put in order.
    #[serde(skip)]
    pub(super) order: (usize, usize),
}

/// How bad a mistake is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum DiagnosticSeverity {
    /// Nothing is done with such a configuration.
    Error,
    /// It is used, and does something that was hardly meant.
    Warning,
}

/// Everything that is wrong, in the order of the text.
///
/// ```
/// use outflow::config::{Config, Environment, Source};
///
/// let text = "[apis.stock]\nbase_url = \"https://stock.example\"\ntimeuot = \"5s\"\n";
/// let wrong = Config::read(&[Source::new("outflow.toml", text)], &Environment::empty()).unwrap_err();
/// let mistake = wrong.iter().next().unwrap();
/// assert_eq!((mistake.line, mistake.key.as_str()), (3, "apis.stock.timeuot"));
/// assert_eq!(mistake.help.as_deref(), Some("did you mean `timeout`?"));
/// ```
#[derive(Clone, PartialEq, Eq, Default, Serialize)]
#[serde(transparent)]
pub struct Diagnostics(Vec<Diagnostic>);

/// As they are shown: a program whose `main` returns them prints them so.
impl fmt::Debug for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\n{self}")
    }
}

impl Diagnostics {
    pub(super) fn new(mut all: Vec<Diagnostic>) -> Self {
        all.sort_by_key(|mistake| mistake.order);
        all.dedup();
        Self(all)
    }

    /// Every mistake, in the order of the text.
    pub fn iter(&self) -> slice::Iter<'_, Diagnostic> {
        self.0.iter()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// As text, each pointing at its line as a compiler does.
    pub fn render(&self, style: RenderStyle) -> String {
        render::all(&self.0, style)
    }

    pub(super) fn has_error(&self) -> bool {
        self.0
            .iter()
            .any(|mistake| mistake.severity == DiagnosticSeverity::Error)
    }
}

impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render(RenderStyle::Plain))
    }
}

impl std::error::Error for Diagnostics {}

impl<'a> IntoIterator for &'a Diagnostics {
    type Item = &'a Diagnostic;
    type IntoIter = slice::Iter<'a, Diagnostic>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}
