//! The configuration language: TOML with positions, layers, diagnostics, redaction and provenance.
//!
//! This crate knows no section. The crate that uses a section reads it from the [`Document`] with a
//! [`TableReader`], and all sections of a document share one collector. So one reading reports every
//! error of every section, in the order of the text, and a document with an error is not used at all.

mod collector;
mod diagnostic;
mod document;
mod environment;
mod human_units;
mod large_text;
mod layers;
mod nesting_limit;
mod overrides;
mod provenance;
mod reader;
mod redact;
mod render;
mod secret;
mod section;
mod source;
mod suggest;
mod syntax_hints;
mod tree;
mod units;
mod value_notes;
pub mod value_readers;

pub use collector::DiagnosticCollector;
pub use diagnostic::{Diagnostic, DiagnosticSeverity, Diagnostics};
pub use document::{Document, ReadSummary};
pub use environment::{EnvVariable, Environment};
pub use human_units::{InvalidValue, read_duration, read_share};
pub use layers::parse_layer;
pub use overrides::{RuntimeOverrides, quoted};
pub use provenance::{ValueOrigin, ValueOrigins};
pub use reader::{FieldValue, TableReader, ValueError, join_key, unknown_name};
pub use redact::{show_name, show_value};
pub use render::RenderStyle;
pub use secret::{SecretKeys, read_secret};
pub use section::{Section, SectionChanges};
pub use source::Source;
pub use suggest::nearest_name;
pub use tree::{SourceSpan, TreeEntry, TreeNode, TreeTable, TreeValue};
pub use units::decimal_millionths;
