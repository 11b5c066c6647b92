//! What people see: colour where it can be shown, tables that line up, and text that may be cut off by
//! whoever reads it.
//!
//! What a command answers goes to the standard output and what it talks besides to the standard error,
//! so that a pipe holds the answer alone.

use std::fmt::{self, Write as _};
use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::time::Duration;

use clap::ValueEnum;
use outflow::config::RenderStyle;
use tokio::io::Interest;
use tokio::net::unix::pipe::Sender;
use tokio::time::timeout;

/// Says a line to whoever looks on.
macro_rules! say {
    ($($words:tt)*) => {
        $crate::terminal::show(&::std::format_args!("{}\n", ::std::format_args!($($words)*)))
    };
}
pub(crate) use say;

/// Shows a text to whoever looks on. There may be nobody: a pipe whose reader left, or a disk that is
/// full, is no reason to end calls that are under way.
pub(crate) fn show(text: &dyn fmt::Display) {
    let _unseen = write!(io::stderr().lock(), "{text}");
}

/// When text is coloured.
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

/// Where people read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terminal {
    talk: RenderStyle,
    is_watched: bool,
}

impl Terminal {
    /// The terminal of this process, if there is one.
    pub(crate) fn new(colour: ColourChoice) -> Self {
        let is_watched = io::stderr().is_terminal();
        let wanted = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        let coloured = match colour {
            ColourChoice::Auto => is_watched && wanted,
            ColourChoice::Always => true,
            ColourChoice::Never => false,
        };
        let talk = if coloured {
            RenderStyle::Coloured
        } else {
            RenderStyle::Plain
        };
        Self { talk, is_watched }
    }

    /// How talk is shown.
    pub(crate) const fn style(self) -> RenderStyle {
        self.talk
    }

    /// A word that stands out.
    pub(crate) fn strong(self, text: &str) -> String {
        match self.talk {
            RenderStyle::Plain => text.to_owned(),
            RenderStyle::Coloured => format!("\u{1b}[1m{text}\u{1b}[0m"),
        }
    }

    /// The word that begins an error.
    pub(crate) fn alarm(self, text: &str) -> String {
        match self.talk {
            RenderStyle::Plain => text.to_owned(),
            RenderStyle::Coloured => format!("\u{1b}[1;31m{text}\u{1b}[0m"),
        }
    }

    /// Whether somebody looks on.
    pub(crate) const fn is_watched(self) -> bool {
        self.is_watched
    }

    /// Writes over the line that shows progress; nothing where nobody looks.
    pub(crate) fn progress(self, line: &str) {
        if self.is_watched {
            let mut out = io::stderr().lock();
            // A terminal that cannot be written to changes no result.
            let _unseen = write!(out, "\r{line}\u{1b}[K");
            let _unseen = out.flush();
        }
    }
}

/// A span as people say it: `250 ms`, `9.5 s`, `2 min 5 s`, `3 h 20 min`.
pub(crate) fn spoken(span: Duration) -> String {
    let millis = span.as_millis();
    match millis {
        0..1_000 => format!("{millis} ms"),
        1_000..60_000 => format!("{}.{} s", millis / 1_000, millis % 1_000 / 100),
        60_000..3_600_000 => format!("{} min {} s", millis / 60_000, millis / 1_000 % 60),
        _ => format!("{} h {} min", millis / 3_600_000, millis / 60_000 % 60),
    }
}

/// So many of something: `1 job`, `2 jobs`.
pub(crate) fn count(count: usize, one: &str, many: &str) -> String {
    let word = if count == 1 { one } else { many };
    format!("{count} {word}")
}

/// Prints an answer. Whoever closes the pipe early has read enough.
pub(crate) fn answer(text: &str) -> anyhow::Result<()> {
    answer_bytes(text.as_bytes())
}

/// The same for what may not be text.
pub(crate) fn answer_bytes(bytes: &[u8]) -> anyhow::Result<()> {
    match deliver(bytes) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => Ok(written?),
    }
}

/// Prints what must not get lost: whoever closes the pipe early has not read it.
pub(crate) fn deliver(bytes: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(bytes).and_then(|()| out.flush())
}

/// Whether this is a pipe that nobody reads any more. Nothing is known of one that is full, nor of a file.
pub(crate) async fn is_unread(out: &impl AsFd) -> bool {
    // As it is: to have it not wait would hold for everybody who writes there.
    let out = out.as_fd().try_clone_to_owned();
    let Ok(out) = out.and_then(Sender::from_owned_fd_unchecked) else {
        return false;
    };
    let told = timeout(A_GLANCE, out.ready(Interest::WRITABLE)).await;
    matches!(told, Ok(Ok(now)) if now.is_write_closed())
}

/// Prints one JSON document.
pub(crate) fn answer_json(document: &serde_json::Value) -> anyhow::Result<()> {
    answer(&format!("{document:#}\n"))
}

/// Rows whose columns line up. The last column is as wide as it is.
#[derive(Debug, Default)]
pub(crate) struct TextTable {
    rows: Vec<Vec<String>>,
}

impl TextTable {
    /// A table with this first row.
    pub(crate) fn new<const N: usize>(head: [&str; N]) -> Self {
        Self {
            rows: vec![head.map(str::to_owned).into()],
        }
    }

    /// Adds a row.
    pub(crate) fn row<const N: usize>(&mut self, cells: [String; N]) {
        self.rows.push(cells.into());
    }

    /// The whole table as text.
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
                let _whole = write!(line, "{cell:width$}  ");
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
}

/// A system says at once whether a pipe can be written to, unless it is full.
const A_GLANCE: Duration = Duration::from_millis(100);

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
    fn a_span_is_said_in_its_two_largest_units() {
        let said = |millis| spoken(Duration::from_millis(millis));
        assert_eq!(
            [said(0), said(999), said(9_540)],
            ["0 ms", "999 ms", "9.5 s"]
        );
        assert_eq!(
            [said(125_000), said(12_000_000)],
            ["2 min 5 s", "3 h 20 min"]
        );
    }

    #[tokio::test]
    async fn a_pipe_is_unread_once_its_reader_is_gone() {
        let (reader, writer) = io::pipe().expect("a pipe");
        assert!(!is_unread(&writer).await);
        drop(reader);
        assert!(is_unread(&writer).await);
        let file = tempfile::tempfile().expect("a file");
        assert!(!is_unread(&file).await, "a file keeps what nobody reads");
    }

    #[test]
    fn colour_is_the_users_choice_first() {
        assert_eq!(
            Terminal::new(ColourChoice::Always).style(),
            RenderStyle::Coloured
        );
        assert_eq!(Terminal::new(ColourChoice::Never).alarm("error"), "error");
    }
}
