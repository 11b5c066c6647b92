//! Renders diagnostics as a compiler does: the line, the marked part of it, and the remedy.
//!
//! The renderer gets only the one line of each diagnostic, so a large file costs no more than its
//! diagnostics.

use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};

use super::diagnostic::{Diagnostic, DiagnosticSeverity};

/// Style of rendered text.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum RenderStyle {
    /// Plain text, for a file or a pipe.
    #[default]
    Plain,
    /// With the escape sequences that colour a terminal.
    Coloured,
}

/// Renders up to [`MAX_SHOWN`] diagnostics, and the number of the others.
pub(crate) fn render_all(diagnostics: &[Diagnostic], style: RenderStyle) -> String {
    let renderer = match style {
        RenderStyle::Plain => Renderer::plain(),
        RenderStyle::Coloured => Renderer::styled(),
    };
    let mut text: Vec<_> = diagnostics
        .iter()
        .take(MAX_SHOWN)
        .map(|diagnostic| render_one(&renderer, diagnostic))
        .collect();
    let hidden = diagnostics.len().saturating_sub(MAX_SHOWN);
    if hidden > 0 {
        text.push(format!("and {hidden} more"));
    }
    text.join("\n\n")
}

fn render_one(renderer: &Renderer, diagnostic: &Diagnostic) -> String {
    let level = match diagnostic.severity {
        DiagnosticSeverity::Error => Level::ERROR,
        DiagnosticSeverity::Warning => Level::WARNING,
    };
    let label = (!diagnostic.key.is_empty()).then_some(diagnostic.key.as_str());
    let snippet = Snippet::source(diagnostic.excerpt.line.as_str())
        .line_start(diagnostic.line)
        .path(diagnostic.source.as_str())
        .annotation(
            AnnotationKind::Primary
                .span(diagnostic.excerpt.span.clone())
                .label(label),
        );
    let report = level.primary_title(diagnostic.message.as_str()).element(snippet);
    let report = match &diagnostic.help {
        Some(help) => report.element(Level::HELP.message(help.as_str())),
        None => report,
    };
    renderer.render(&[report])
}

/// A binary file taken for a configuration has an error in every line; no user reads more than these.
const MAX_SHOWN: usize = 100;
