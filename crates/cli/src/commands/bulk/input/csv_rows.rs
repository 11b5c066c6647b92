//! Rows of a CSV file with their line numbers.
//!
//! This module counts lines as an editor does. The CSV reader counts line feeds only, so files with other
//! line ends would give two rows one number. The reader also accepts an unclosed quote, which would swallow
//! the rest of the file.

use outflow_bulk::JobLine;

use super::InputJob;

/// Parses all rows after the first, which names the columns.
pub(super) fn rows(bytes: &[u8]) -> Box<dyn Iterator<Item = InputJob> + '_> {
    let (closed, open) = without_open_quote(bytes);
    let mut reader = reader(closed);
    let head = reader.headers().cloned().unwrap_or_default();
    if let Some(column) = duplicate_column(&head) {
        let why = format!("has the column {column:?} twice: remove one");
        return Box::new(std::iter::once(invalid(1, why)));
    }
    let mut lines = LineCounter::from_bytes(bytes);
    let cut = open.map(|at| {
        let line = LineCounter::from_bytes(bytes).line_at(at);
        invalid(line, UNCLOSED_QUOTE.to_owned())
    });
    let read = reader.into_records().map(move |row| match row {
        Ok(row) => InputJob {
            line: lines.row_line(row.position()),
            start: start(row.position()),
            job: JobLine::from_row(head.iter().zip(&row)),
        },
        Err(error) => invalid(lines.row_line(error.position()), describe_error(&error)),
    });
    Box::new(read.chain(cut))
}

/// Parses the one row that starts at this byte.
pub(super) fn row_at(bytes: &[u8], start: usize) -> Result<JobLine, String> {
    let mut columns = reader(bytes);
    let columns = columns.headers().map_err(|error| describe_error(&error))?;
    let mut row = csv::ReaderBuilder::new();
    let mut row = row
        .has_headers(false)
        .from_reader(bytes.get(start..).unwrap_or_default());
    let row = row.records().next().transpose();
    let row = row.map_err(|error| describe_error(&error))?.unwrap_or_default();
    JobLine::from_row(columns.iter().zip(&row))
}

fn reader(bytes: &[u8]) -> csv::Reader<&[u8]> {
    let mut builder = csv::ReaderBuilder::new();
    builder.trim(csv::Trim::Headers).from_reader(bytes)
}

const fn invalid(line: u64, why: String) -> InputJob {
    InputJob {
        line,
        start: 0,
        job: Err(why),
    }
}

fn start(position: Option<&csv::Position>) -> usize {
    position.map_or(usize::MAX, |position| {
        usize::try_from(position.byte()).unwrap_or(usize::MAX)
    })
}

/// Line counter over the bytes of a file.
struct LineCounter<'a> {
    bytes: &'a [u8],
    at: usize,
    line: u64,
}

impl<'a> LineCounter<'a> {
    const fn from_bytes(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0, line: 1 }
    }

    /// Returns the first line of a row. Its position is the end of the row before, and blank lines may follow
    /// that.
    fn row_line(&mut self, position: Option<&csv::Position>) -> u64 {
        let ended = start(position).min(self.bytes.len());
        let rest = self.bytes.get(ended..).unwrap_or_default();
        let blank = rest.iter().take_while(|byte| is_line_end(**byte)).count();
        self.line_at(ended.saturating_add(blank))
    }

    /// Returns the line of a byte, which must not precede the last one.
    fn line_at(&mut self, to: usize) -> u64 {
        while self.at < to
            && let Some(byte) = self.bytes.get(self.at)
        {
            let after_return = self.at > 0 && self.bytes.get(self.at - 1) == Some(&b'\r');
            // CR and LF together are one line end.
            if *byte == b'\r' || (*byte == b'\n' && !after_return) {
                self.line += 1;
            }
            self.at += 1;
        }
        self.line
    }
}

/// State of the quote scanner.
#[derive(Clone, Copy, PartialEq, Eq)]
enum QuoteState {
    /// Before the first byte of a field.
    Start,
    /// In an unquoted field, or after a quoted one.
    Plain,
    /// Inside quotes.
    Quoted,
    /// After a quote that ends the field or is the first of two.
    Quote,
}

/// Returns the bytes before a row with an unclosed quote, and the offset of that quote.
fn without_open_quote(bytes: &[u8]) -> (&[u8], Option<usize>) {
    let (mut state, mut row, mut opened) = (QuoteState::Start, 0, 0);
    for (at, byte) in bytes.iter().enumerate() {
        state = match (state, byte) {
            (QuoteState::Start, b'"') => {
                opened = at;
                QuoteState::Quoted
            }
            (QuoteState::Quoted, b'"') => QuoteState::Quote,
            (QuoteState::Quoted, _) | (QuoteState::Quote, b'"') => QuoteState::Quoted,
            (_, b',') => QuoteState::Start,
            (_, byte) if is_line_end(*byte) => {
                row = at + 1;
                QuoteState::Start
            }
            _ => QuoteState::Plain,
        };
    }
    if state != QuoteState::Quoted {
        return (bytes, None);
    }
    (bytes.get(..row).unwrap_or_default(), Some(opened))
}

const fn is_line_end(byte: u8) -> bool {
    matches!(byte, b'\r' | b'\n')
}

fn duplicate_column(head: &csv::StringRecord) -> Option<&str> {
    let mut seen = std::collections::HashSet::new();
    head.iter().find(|name| !seen.insert(*name))
}

fn describe_error(error: &csv::Error) -> String {
    match error.kind() {
        csv::ErrorKind::UnequalLengths { expected_len, len, .. } => {
            format!("has {len} fields but the header has {expected_len}: quote fields with a comma")
        }
        csv::ErrorKind::Utf8 { .. } => "is not UTF-8: save the file as UTF-8".to_owned(),
        _ => error.to_string(),
    }
}

const UNCLOSED_QUOTE: &str = "opens a quote that is never closed: close it, and double quotes inside of a text; \
                            this row and all rows after it were not read";

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<(u64, Option<String>)> {
        let found = rows(text.as_bytes());
        found.map(|found| (found.line, found.job.err())).collect()
    }

    // The second job has a line break in its body, so the third is on line 5.
    #[test]
    fn a_row_keeps_its_line_number() {
        let text = "tenant, api ,path,body\nacme,up,/1,\nacme,up,/2,\"a\nb\"\nacme,up,/3\nacme,up,/4,\n";
        let short = "has 3 fields but the header has 4: quote fields with a comma";
        assert_eq!(
            found(text),
            [(2, None), (3, None), (5, Some(short.to_owned())), (6, None)]
        );
    }

    // CRLF, LF, CR, a mixture of them, and a blank line.
    #[test]
    fn line_numbers_are_right_for_all_line_ends() {
        for end in ["\n", "\r\n", "\r"] {
            let text = ["api,path", "x,/1", "x,/2", "", "x,/4", ""].join(end);
            let lines: Vec<_> = found(&text).into_iter().map(|(line, _)| line).collect();
            assert_eq!(lines, [2, 3, 5], "{end:?}");
        }
        let text = "api,path\rx,/1\r\nx,/2\nx,/3\r";
        let lines: Vec<_> = found(text).into_iter().map(|(line, _)| line).collect();
        assert_eq!(lines, [2, 3, 4]);
    }

    // Rows before it are valid. A quote inside of an unquoted text opens nothing, and two quotes are one.
    #[test]
    fn an_unclosed_quote_is_an_error_of_its_row() {
        let text = "api,path,body\nx,/a,\nx,/b,\"abc\nx,/c,\n";
        let expected = [(2, None), (3, Some(UNCLOSED_QUOTE.to_owned()))];
        assert_eq!(found(text), expected);
        let text = "api,path,body\nx,/a,5\" wide\nx,/b,\"two \"\" of them\"\n";
        assert_eq!(found(text), [(2, None), (3, None)]);
        let head = found("api,\"path\nx,/a\n");
        assert_eq!(head, [(1, Some(UNCLOSED_QUOTE.to_owned()))]);
    }

    #[test]
    fn a_duplicate_column_is_an_error() {
        let why = "has the column \"api\" twice: remove one";
        assert_eq!(found("api,path,api\nup,/1,down\n"), [(1, Some(why.to_owned()))]);
    }
}
