//! All layers of a configuration as one tree, and the result of reading it.

use std::path::PathBuf;

use secrecy::SecretString;

use super::collector::DiagnosticCollector;
use super::diagnostic::Diagnostics;
use super::environment::Environment;
use super::provenance::ValueOrigins;
use super::reader::TableReader;
use super::section::Section;
use super::tree::{SourceSpan, TreeTable};

/// A configuration before its sections are read.
///
/// ```
/// use std::time::Duration;
///
/// use outflow_config::value_readers::read_positive_duration;
/// use outflow_config::{
///     DiagnosticCollector, Document, Environment, Section, Source, TableReader, parse_layer,
/// };
///
/// struct Http(Option<Duration>);
///
/// impl Section for Http {
///     const NAME: &str = "http";
///
///     fn read(table: &TableReader<'_>, _: &Environment) -> Self {
///         Self(table.read("timeout", read_positive_duration))
///     }
///
///     fn restart_keys(&self, _: &Self) -> Vec<String> {
///         Vec::new()
///     }
/// }
///
/// let collector = DiagnosticCollector::default();
/// let source = Source::new("app.toml", "[http]\ntimeuot = \"5s\"\n");
/// let root = parse_layer(&source, "apis", &collector);
/// let document = Document::new(root, collector);
/// let http: Http = document.read(&Environment::empty());
/// assert_eq!(http.0, None);
/// let diagnostics = document.close(&[Http::NAME]).unwrap_err();
/// let first = diagnostics.iter().next().unwrap();
/// assert_eq!((first.line, first.key.as_str()), (2, "http.timeuot"));
/// assert_eq!(first.help.as_deref(), Some("did you mean `timeout`?"));
/// ```
#[derive(Debug)]
pub struct Document {
    root: TreeTable,
    collector: DiagnosticCollector,
}

/// Everything that reading a document yields apart from the values.
#[derive(Debug, Default)]
pub struct ReadSummary {
    /// Files that the document names and that were read with it: keys and tokens.
    pub files: Vec<PathBuf>,
    /// Every secret that was read. No log line may contain one.
    pub secrets: Vec<SecretString>,
    /// Warnings, in the order of the text.
    pub warnings: Diagnostics,
    /// Origin of each value.
    pub origins: ValueOrigins,
}

impl Document {
    /// Creates a document from merged layers and the collector that saw their sources.
    pub const fn new(root: TreeTable, collector: DiagnosticCollector) -> Self {
        Self { root, collector }
    }

    /// Returns a reader of the topmost table.
    pub fn root(&self) -> TableReader<'_> {
        TableReader::new(&self.collector, &self.root, SourceSpan::default(), "")
    }

    /// Reads a section and reports its unknown keys.
    pub fn read<S: Section>(&self, environment: &Environment) -> S {
        let table = self.root().section(S::NAME);
        let section = S::read(&table, environment);
        table.finish();
        section
    }

    /// Ends the reading and reports every section whose name is not in `sections`. A name in it that
    /// nothing has read belongs to another program: its contents are ignored.
    ///
    /// # Errors
    /// Returns all diagnostics, warnings included, if one of them is an error.
    pub fn close(self, sections: &[&'static str]) -> Result<ReadSummary, Diagnostics> {
        let root = self.root();
        root.expect_names(sections);
        root.finish();
        drop(root);
        let summary = self.collector.close();
        if summary.warnings.has_error() {
            return Err(summary.warnings);
        }
        Ok(summary)
    }
}
