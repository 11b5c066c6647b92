//! Located errors and warnings of a configuration, all at once.
//!
//! Reporting one error at a time costs one run of the program per error. So every diagnostic is kept
//! with its position and its remedy, and all are shown together; programs can also iterate over them or
//! write them as JSON. No diagnostic holds a secret: its excerpt is redacted first.

use std::fmt;
use std::slice;

use serde::Serialize;

use super::render::{self, RenderStyle};
use super::source::SourceExcerpt;
use super::tree::SourceSpan;

/// One error or warning.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Diagnostic {
    /// Error or warning.
    pub severity: DiagnosticSeverity,
    /// File, preset or variable that it is in.
    pub source: String,
    /// Line, beginning at 1.
    pub line: usize,
    /// Character in the line, beginning at 1.
    pub column: usize,
    /// Key, such as `apis.stock.timeout`; empty if it concerns no key.
    pub key: String,
    /// The fault.
    pub message: String,
    /// The remedy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub help: Option<String>,
    #[serde(skip)]
    pub(crate) excerpt: SourceExcerpt,
    /// Its place, which is also the order of diagnostics.
    #[serde(skip)]
    pub(crate) at: SourceSpan,
}

/// Severity of a diagnostic.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum DiagnosticSeverity {
    /// The configuration is not used.
    Error,
    /// The configuration is used, and probably does something unintended.
    Warning,
}

/// All diagnostics, in the order of the text.
#[derive(Clone, PartialEq, Eq, Default, Serialize)]
#[serde(transparent)]
pub struct Diagnostics(Vec<Diagnostic>);

/// Prints them as [`Display`](fmt::Display) does, for a program whose `main` returns them.
impl fmt::Debug for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\n{self}")
    }
}

impl Diagnostics {
    pub(crate) fn new(mut all: Vec<Diagnostic>) -> Self {
        all.sort_by_key(|diagnostic| (diagnostic.at.source, diagnostic.at.start));
        all.dedup();
        Self(all)
    }

    /// Iterates over all of them, in the order of the text.
    pub fn iter(&self) -> slice::Iter<'_, Diagnostic> {
        self.0.iter()
    }

    /// Returns their number.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns true if there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Renders them as text, each pointing at its line as a compiler does.
    pub fn render(&self, style: RenderStyle) -> String {
        render::render_all(&self.0, style)
    }

    pub(crate) fn has_error(&self) -> bool {
        self.0
            .iter()
            .any(|diagnostic| diagnostic.severity == DiagnosticSeverity::Error)
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
