//! Parses a source into a layer.
//!
//! Layers from the bottom: preset, texts in their order, environment, runtime overrides. A value of a
//! higher layer replaces the value of a lower one. The owner of the sections merges the layers, because
//! some keys exclude each other.

use toml::de::DeTable;

use super::collector::DiagnosticCollector;
use super::large_text;
use super::nesting_limit::find_deep_key;
use super::reader::ValueError;
use super::source::Source;
use super::syntax_hints;
use super::tree::{SourceSpan, TextStart, TreeTable, convert_table};

/// Parses a source and reports every part of it that does not parse. A large text is split before the
/// headers `[SPLIT_TABLE.NAME]`.
pub fn parse_layer(source: &Source, split_table: &str, collector: &DiagnosticCollector) -> TreeTable {
    let (text, number) = (source.text(), collector.add_source(source.clone()));
    let span = |start, end| SourceSpan {
        source: number,
        start,
        end,
    };
    if let Some(start) = find_deep_key(text) {
        let error = ValueError::new("this key has too many parts");
        let error = error.help("nothing of this text was read");
        collector.report(span(start, start + 1), "", error);
        return TreeTable::EMPTY;
    }
    if let Some(table) = large_text::parse_in_parts(number, text, split_table) {
        return table;
    }
    let (table, errors) = DeTable::parse_recoverable(text);
    for error in errors {
        let range = error.span().unwrap_or_default();
        let at = span(range.start, range.end);
        let lines = syntax_hints::unreliable_lines(text, range.start);
        collector.mark_unreliable(number, lines);
        let error = syntax_hints::explain_syntax(text, range, error.message());
        collector.report(at, "", error);
    }
    convert_table(TextStart::from_source(number), table.get_ref())
}
