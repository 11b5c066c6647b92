//! The rows of a CSV file, each with the number of its line.
//!
//! Lines are counted here, as an editor shows them: the reader of rows counts line feeds alone, while a file may
//! end its lines otherwise, and two rows of one number would be one job. Nor does the reader mind a quote that is
//! never closed: it would make one text of all that follows.

use outflow_bulk::JobLine;

use super::InputJob;

/// All rows but the first, which names the columns.
pub(super) fn rows(bytes: &[u8]) -> Box<dyn Iterator<Item = InputJob> + '_> {
    let (whole, open) = without_open_quote(bytes);
    let mut reader = reader(whole);
    let head = reader.headers().cloned().unwrap_or_default();
    if let Some(twice) = twice(&head) {
        let why = format!("has the column {twice:?} twice: leave one of them out");
        return Box::new(std::iter::once(invalid(1, why)));
    }
    let mut lines = LineCounter::from_bytes(bytes);
    let cut = open.map(|at| {
        let line = LineCounter::from_bytes(bytes).up_to(at);
        invalid(line, NEVER_CLOSED.to_owned())
    });
    let read = reader.into_records().map(move |row| match row {
        Ok(row) => InputJob {
            line: lines.of_row(row.position()),
            start: start(row.position()),
            job: JobLine::of_row(head.iter().zip(&row)),
        },
        Err(error) => invalid(lines.of_row(error.position()), unreadable(&error)),
    });
    Box::new(read.chain(cut))
}

/// Parses the one row that starts at this byte.
pub(super) fn row_at(bytes: &[u8], start: usize) -> Result<JobLine, String> {
    let mut columns = reader(bytes);
    let columns = columns.headers().map_err(|error| unreadable(&error))?;
    let mut row = csv::ReaderBuilder::new();
    let mut row = row
        .has_headers(false)
        .from_reader(bytes.get(start..).unwrap_or_default());
    let row = row.records().next().transpose();
    let row = row.map_err(|error| unreadable(&error))?.unwrap_or_default();
    JobLine::of_row(columns.iter().zip(&row))
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

/// Counts lines on the way through a file.
struct LineCounter<'a> {
    bytes: &'a [u8],
    at: usize,
    line: u64,
}

impl<'a> LineCounter<'a> {
    const fn from_bytes(bytes: &'a [u8]) -> Self {
        Self {
            bytes,
            at: 0,
            line: 1,
        }
    }

    /// The line on which a row begins. Its position is where the one before it ended, and there may be blank
    /// lines between them.
    fn of_row(&mut self, position: Option<&csv::Position>) -> u64 {
        let ended = start(position).min(self.bytes.len());
        let rest = self.bytes.get(ended..).unwrap_or_default();
        let blank = rest.iter().take_while(|byte| is_line_end(**byte)).count();
        self.up_to(ended.saturating_add(blank))
    }

    /// The line that this byte is on, which lies no earlier than the last that was asked for.
    fn up_to(&mut self, to: usize) -> u64 {
        while self.at < to
            && let Some(byte) = self.bytes.get(self.at)
        {
            let after_return = self.at > 0 && self.bytes.get(self.at - 1) == Some(&b'\r');
            // Both together end one line.
            if *byte == b'\r' || (*byte == b'\n' && !after_return) {
                self.line += 1;
            }
            self.at += 1;
        }
        self.line
    }
}

/// Where a reader of rows is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum QuoteState {
    /// Before the first byte of a field.
    Start,
    /// In a field that began without a quote, or behind one.
    Plain,
    /// Between quotes.
    Quoted,
    /// Behind a quote that ends the field, or is one of two.
    Quote,
}

/// What lies before the row with a quote that is never closed, and where that quote is.
fn without_open_quote(bytes: &[u8]) -> (&[u8], Option<usize>) {
    let (mut within, mut row, mut opened) = (QuoteState::Start, 0, 0);
    for (at, byte) in bytes.iter().enumerate() {
        within = match (within, byte) {
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
    if within != QuoteState::Quoted {
        return (bytes, None);
    }
    (bytes.get(..row).unwrap_or_default(), Some(opened))
}

const fn is_line_end(byte: u8) -> bool {
    matches!(byte, b'\r' | b'\n')
}

fn twice(head: &csv::StringRecord) -> Option<&str> {
    let mut seen = std::collections::HashSet::new();
    head.iter().find(|name| !seen.insert(*name))
}

fn unreadable(error: &csv::Error) -> String {
    match error.kind() {
        csv::ErrorKind::UnequalLengths {
            expected_len, len, ..
        } => format!(
            "has {len} fields where the first row names {expected_len}: quote what holds a comma"
        ),
        csv::ErrorKind::Utf8 { .. } => "is not UTF-8: save the file as such".to_owned(),
        _ => error.to_string(),
    }
}

const NEVER_CLOSED: &str = "opens a quote that is never closed: close it, and write two quotes for one inside of \
                            a text; this and everything after it was not read";

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<(u64, Option<String>)> {
        let found = rows(text.as_bytes());
        found.map(|found| (found.line, found.job.err())).collect()
    }

    // The second job has a line break in its body, so the third is on line 5.
    #[test]
    fn a_row_keeps_its_line_too() {
        let text =
            "tenant, api ,path,body\nacme,up,/1,\nacme,up,/2,\"a\nb\"\nacme,up,/3\nacme,up,/4,\n";
        let short = "has 3 fields where the first row names 4: quote what holds a comma";
        assert_eq!(
            found(text),
            [(2, None), (3, None), (5, Some(short.to_owned())), (6, None)]
        );
    }

    // Ended by both, by one, by the other, and by whatever somebody pasted together; and a blank line.
    #[test]
    fn every_row_has_a_line_of_its_own_however_lines_end() {
        for end in ["\n", "\r\n", "\r"] {
            let text = ["api,path", "x,/1", "x,/2", "", "x,/4", ""].join(end);
            let lines: Vec<_> = found(&text).into_iter().map(|(line, _)| line).collect();
            assert_eq!(lines, [2, 3, 5], "{end:?}");
        }
        let text = "api,path\rx,/1\r\nx,/2\nx,/3\r";
        let lines: Vec<_> = found(text).into_iter().map(|(line, _)| line).collect();
        assert_eq!(lines, [2, 3, 4]);
    }

    // What was read before it is as good as ever. A quote within a text that began without one opens nothing, and
    // two of them are one.
    #[test]
    fn a_quote_that_is_never_closed_does_not_swallow_the_rest() {
        let text = "api,path,body\nx,/a,\nx,/b,\"abc\nx,/c,\n";
        let expected = [(2, None), (3, Some(NEVER_CLOSED.to_owned()))];
        assert_eq!(found(text), expected);
        let text = "api,path,body\nx,/a,5\" wide\nx,/b,\"two \"\" of them\"\n";
        assert_eq!(found(text), [(2, None), (3, None)]);
        let head = found("api,\"path\nx,/a\n");
        assert_eq!(head, [(1, Some(NEVER_CLOSED.to_owned()))]);
    }

    #[test]
    fn a_column_is_named_once() {
        let why = "has the column \"api\" twice: leave one of them out";
        assert_eq!(
            found("api,path,api\nup,/1,down\n"),
            [(1, Some(why.to_owned()))]
        );
    }
}
