//! Shows mistakes as the compiler shows its own: the line, what of it is meant, and what to do.
//!
//! Only the one line of each mistake is handed to the renderer, so that a large file with many mistakes
//! costs no more than its mistakes.

use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};

use super::diagnostic::{Diagnostic, DiagnosticSeverity};

/// How text is shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum RenderStyle {
    /// Plain text, for a file or a pipe.
    #[default]
    Plain,
    /// With the escapes that colour a terminal.
    Coloured,
}

/// All of them, one after another, and how many there are.
pub(super) fn all(mistakes: &[Diagnostic], style: RenderStyle) -> String {
    let renderer = match style {
        RenderStyle::Plain => Renderer::plain(),
        RenderStyle::Coloured => Renderer::styled(),
    };
    let mut text: Vec<_> = mistakes
        .iter()
        .take(MOST_SHOWN)
        .map(|mistake| one(&renderer, mistake))
        .collect();
    let hidden = mistakes.len().saturating_sub(MOST_SHOWN);
    if hidden > 0 {
        text.push(format!("and {hidden} more"));
    }
    text.join("\n\n")
}

fn one(renderer: &Renderer, mistake: &Diagnostic) -> String {
    let level = match mistake.severity {
        DiagnosticSeverity::Error => Level::ERROR,
        DiagnosticSeverity::Warning => Level::WARNING,
    };
    let snippet = Snippet::source(mistake.excerpt.line.as_str())
        .line_start(mistake.line)
        .path(mistake.source.as_str())
        .annotation(
            AnnotationKind::Primary
                .span(mistake.excerpt.span.clone())
                .label((!mistake.key.is_empty()).then_some(mistake.key.as_str())),
        );
    let report = level
        .primary_title(mistake.message.as_str())
        .element(snippet);
    let report = match &mistake.help {
        Some(help) => report.element(Level::HELP.message(help.as_str())),
        None => report,
    };
    renderer.render(&[report])
}

/// Nobody reads further, and a binary file taken for a configuration has a mistake in every line.
const MOST_SHOWN: usize = 100;
