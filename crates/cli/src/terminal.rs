//! Terminal output: colours, tables and progress.
//!
//! Results go to the standard output and messages to the standard error, so that a pipe holds only results.

use std::fmt::{self, Write as _};
use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::time::Duration;

use clap::ValueEnum;
use outflow::config::RenderStyle;
use tokio::io::Interest;
use tokio::net::unix::pipe::Sender;
use tokio::time::timeout;

/// Prints a line to the standard error.
macro_rules! say {
    ($($words:tt)*) => {
        $crate::terminal::show(&::std::format_args!("{}\n", ::std::format_args!($($words)*)))
    };
}
pub(crate) use say;

/// Prints a text to the standard error. Errors are ignored: a closed pipe or a full disk must not end calls
/// in flight.
pub(crate) fn show(text: &dyn fmt::Display) {
    let _ignored = write!(io::stderr().lock(), "{text}");
}

/// Choice of colours.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, ValueEnum)]
pub(crate) enum ColourChoice {
    /// On a terminal, unless `NO_COLOR` is set.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// Terminal of the user.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terminal {
    /// Style of messages.
    pub(crate) style: RenderStyle,
    /// The standard error is a terminal.
    pub(crate) is_watched: bool,
}

impl Terminal {
    /// Returns the terminal of this process.
    pub(crate) fn new(colour: ColourChoice) -> Self {
        let is_watched = io::stderr().is_terminal();
        let wanted = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        let coloured = match colour {
            ColourChoice::Auto => is_watched && wanted,
            ColourChoice::Always => true,
            ColourChoice::Never => false,
        };
        let style = if coloured {
            RenderStyle::Coloured
        } else {
            RenderStyle::Plain
        };
        Self { style, is_watched }
    }

    /// Highlights a text.
    pub(crate) fn strong(self, text: &str) -> String {
        self.escape("1", text)
    }

    /// Highlights the start of an error message.
    pub(crate) fn alarm(self, text: &str) -> String {
        self.escape("1;31", text)
    }

    fn escape(self, code: &str, text: &str) -> String {
        match self.style {
            RenderStyle::Plain => text.to_owned(),
            RenderStyle::Coloured => format!("\u{1b}[{code}m{text}\u{1b}[0m"),
        }
    }

    /// Replaces the progress line; without a terminal it does nothing.
    pub(crate) fn progress(self, line: &str) {
        if self.is_watched {
            let mut out = io::stderr().lock();
            // A terminal that cannot be written to changes no result.
            let _ignored = write!(out, "\r{line}\u{1b}[K");
            let _ignored = out.flush();
        }
    }
}

/// Formats a span: `250 ms`, `9.5 s`, `2 min 5 s`, `3 h 20 min`.
pub(crate) fn format_span(span: Duration) -> String {
    let millis = span.as_millis();
    match millis {
        0..1_000 => format!("{millis} ms"),
        1_000..60_000 => format!("{}.{} s", millis / 1_000, millis % 1_000 / 100),
        60_000..3_600_000 => format!("{} min {} s", millis / 60_000, millis / 1_000 % 60),
        _ => format!("{} h {} min", millis / 3_600_000, millis / 60_000 % 60),
    }
}

/// Formats a count with its noun: `1 job`, `2 jobs`.
pub(crate) fn count(count: usize, one: &str, many: &str) -> String {
    let word = if count == 1 { one } else { many };
    format!("{count} {word}")
}

/// Prints a result. A reader that closes the pipe early has read enough.
pub(crate) fn answer(text: &str) -> anyhow::Result<()> {
    answer_bytes(text.as_bytes())
}

/// Prints a result that may not be text.
pub(crate) fn answer_bytes(bytes: &[u8]) -> anyhow::Result<()> {
    match deliver(bytes) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => Ok(written?),
    }
}

/// Prints a result that must not be lost: a closed pipe is an error.
pub(crate) fn deliver(bytes: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(bytes).and_then(|()| out.flush())
}

/// Returns true for a pipe without a reader. The state of a full pipe or a file is unknown.
pub(crate) async fn is_unread(out: &impl AsFd) -> bool {
    // The descriptor stays blocking, since the flag is shared with all its other users.
    let out = out.as_fd().try_clone_to_owned();
    let Ok(out) = out.and_then(Sender::from_owned_fd_unchecked) else {
        return false;
    };
    let ready = timeout(READY_TIMEOUT, out.ready(Interest::WRITABLE)).await;
    matches!(ready, Ok(Ok(now)) if now.is_write_closed())
}

/// Prints one JSON document.
pub(crate) fn answer_json(document: &serde_json::Value) -> anyhow::Result<()> {
    answer(&format!("{document:#}\n"))
}

/// Returns a duration for a document.
pub(crate) fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

/// Table with aligned columns. The last column is not padded.
#[derive(Debug, Default)]
pub(crate) struct TextTable {
    rows: Vec<Vec<String>>,
}

impl TextTable {
    /// Creates a table with this header.
    pub(crate) fn new<const N: usize>(head: [&str; N]) -> Self {
        Self {
            rows: vec![head.map(str::to_owned).into()],
        }
    }

    /// Adds a row.
    pub(crate) fn row<const N: usize>(&mut self, cells: [String; N]) {
        self.rows.push(cells.into());
    }

    /// Formats the table.
    pub(crate) fn text(&self) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<_> = (0..columns).map(width).collect();
        let mut text = String::new();
        for row in &self.rows {
            let mut line = String::new();
            for (cell, width) in row.iter().zip(&widths) {
                // Writing to a string cannot fail.
                let _infallible = write!(line, "{cell:width$}  ");
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
}

/// The system reports a closed pipe at once, unless it is full.
const READY_TIMEOUT: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;

    // `ü` is one column wide and two bytes long.
    #[test]
    fn columns_line_up_and_no_line_ends_in_blanks() {
        let mut table = TextTable::new(["api", "state"]);
        table.row(["ü".to_owned(), "Normal".to_owned()]);
        table.row(["longer".to_owned(), String::new()]);
        assert_eq!(table.text(), "api     state\nü       Normal\nlonger\n");
    }

    #[test]
    fn a_span_has_its_two_largest_units() {
        let formatted = |millis| format_span(Duration::from_millis(millis));
        assert_eq!(
            [formatted(0), formatted(999), formatted(9_540)],
            ["0 ms", "999 ms", "9.5 s"]
        );
        assert_eq!([formatted(125_000), formatted(12_000_000)], ["2 min 5 s", "3 h 20 min"]);
    }

    #[tokio::test]
    async fn a_pipe_is_unread_once_its_reader_is_gone() {
        let (reader, writer) = io::pipe().expect("a pipe");
        assert!(!is_unread(&writer).await);
        drop(reader);
        assert!(is_unread(&writer).await);
        let file = tempfile::tempfile().expect("a file");
        assert!(!is_unread(&file).await, "a file needs no reader");
    }

    #[test]
    fn the_users_choice_of_colour_wins() {
        assert_eq!(Terminal::new(ColourChoice::Always).style, RenderStyle::Coloured);
        assert_eq!(Terminal::new(ColourChoice::Never).alarm("error"), "error");
    }
}
