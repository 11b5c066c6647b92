//! A file of jobs: lines of JSON, or CSV.
//!
//! It is read into memory once and parsed once, so that a write to the file in between changes nothing. Every
//! job keeps the number of its line, which errors name and which names a job without an id, and the place
//! where it starts, from which it alone is parsed again when it is submitted.

mod csv_rows;

use std::io::Read;
use std::path::Path;

use anyhow::Context;
use clap::ValueEnum;
use outflow_bulk::JobLine;
use outflow_store::Name;

/// How jobs are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum InputFormat {
    /// An object of JSON on every line.
    Ndjson,
    /// Rows under names of columns.
    Csv,
}

/// A file of jobs.
pub(super) struct JobInput {
    /// Its name without folder and ending.
    pub(super) stem: String,
    /// What only a file of the same bytes has.
    pub(super) mark: String,
    bytes: Vec<u8>,
    format: InputFormat,
}

impl JobInput {
    /// Reads a file, or what is piped in for `-`.
    pub(super) fn read(file: &str, format: Option<InputFormat>) -> anyhow::Result<Self> {
        let (stem, bytes) = if file == "-" {
            let mut bytes = Vec::new();
            let read = std::io::stdin().read_to_end(&mut bytes);
            read.context("the jobs cannot be read from the standard input")?;
            ("stdin".to_owned(), bytes)
        } else {
            let bytes = std::fs::read(file);
            let bytes = bytes.with_context(|| format!("`{file}` cannot be read"))?;
            let stem = Path::new(file).file_stem().unwrap_or_default();
            (stem.to_string_lossy().into_owned(), bytes)
        };
        let end = Path::new(file).extension();
        let named = end.is_some_and(|end| end.eq_ignore_ascii_case("csv"));
        let usual = if named {
            InputFormat::Csv
        } else {
            InputFormat::Ndjson
        };
        let mark = mark(&bytes);
        Ok(Self {
            stem,
            mark,
            bytes: without_bom(bytes),
            format: format.unwrap_or(usual),
        })
    }

    /// Parses all jobs in their order.
    pub(super) fn jobs(&self) -> Box<dyn Iterator<Item = InputJob> + '_> {
        match self.format {
            InputFormat::Ndjson => Box::new(lines(&self.bytes)),
            InputFormat::Csv => csv_rows::rows(&self.bytes),
        }
    }

    /// Parses the one job that starts at this byte.
    pub(super) fn job_at(&self, start: usize) -> Result<JobLine, String> {
        let rest = self.bytes.get(start..).unwrap_or_default();
        match self.format {
            InputFormat::Ndjson => {
                let mut lines = rest.split(|byte| *byte == b'\n');
                parse_line(lines.next().unwrap_or_default())
            }
            InputFormat::Csv => csv_rows::row_at(&self.bytes, start),
        }
    }

    /// What a job without a name is called: the same in every run of the same file.
    pub(super) fn name(&self, line: u64) -> Option<Name> {
        Name::new(&format!("{}-{line}", self.mark)).ok()
    }

    /// What the job of a line is called when it is tried anew after it failed for good: a name that was
    /// used is known, and would be taken for the first.
    pub(super) fn retry_name(&self, line: u64, round: u32) -> Option<Name> {
        Name::new(&format!("{}-{line}.{round}", self.mark)).ok()
    }

    /// Which line a job is of, if it has its name from here, and in which round.
    pub(super) fn line(&self, name: &Name) -> Option<(u64, u32)> {
        let rest = name.as_str().strip_prefix(&self.mark)?;
        let rest = rest.strip_prefix('-')?;
        let (line, round) = match rest.split_once('.') {
            Some((line, round)) => (line, round.parse().ok()?),
            None => (rest, 1),
        };
        Some((line.parse().ok()?, round))
    }
}

/// What some editors write before the first line.
fn without_bom(mut bytes: Vec<u8>) -> Vec<u8> {
    if bytes.starts_with(BOM) {
        bytes.drain(..BOM.len());
    }
    bytes
}

fn lines(bytes: &[u8]) -> impl Iterator<Item = InputJob> {
    let mut next = 0;
    let lines = bytes.split(|byte| *byte == b'\n').map(move |line| {
        let start = next;
        next += line.len() + 1;
        (start, line)
    });
    let numbered = (1..).zip(lines);
    let filled = numbered.filter(|(_, (_, line))| !line.trim_ascii().is_empty());
    filled.map(|(number, (start, line))| InputJob {
        line: number,
        start,
        job: parse_line(line),
    })
}

fn parse_line(line: &[u8]) -> Result<JobLine, String> {
    let text = std::str::from_utf8(line);
    let text = text.map_err(|_| "is not UTF-8: save the file as such".to_owned());
    text.and_then(JobLine::of_json)
}

/// One job of a file.
pub(super) struct InputJob {
    /// The number of its line.
    pub(super) line: u64,
    /// The byte at which it starts.
    pub(super) start: usize,
    /// The job, or its errors.
    pub(super) job: Result<JobLine, String>,
}

/// Sixteen digits of a hash: two files of one machine never share them by chance.
fn mark(bytes: &[u8]) -> String {
    let hash = blake3::hash(bytes).to_hex();
    hash.get(..16).unwrap_or_default().to_owned()
}

/// A mark of the order of bytes, which UTF-8 does not need.
const BOM: &[u8] = "\u{feff}".as_bytes();

#[cfg(test)]
mod tests {
    use super::*;

    fn input(text: &str, format: InputFormat) -> JobInput {
        JobInput {
            stem: "jobs".to_owned(),
            mark: mark(text.as_bytes()),
            bytes: text.as_bytes().to_vec(),
            format,
        }
    }

    // Blank lines count as lines and hold no job.
    #[test]
    fn a_line_keeps_its_number_in_the_file() {
        let text = "{\"api\":\"up\",\"path\":\"/1\"}\r\n\n{\"api\":\n\u{feff}\n";
        let input = input(text, InputFormat::Ndjson);
        let found: Vec<_> = input
            .jobs()
            .map(|found| (found.line, found.job.is_ok()))
            .collect();
        assert_eq!(found, [(1, true), (3, false), (4, false)]);
        let name = input.name(3).expect("a name");
        assert_eq!(input.line(&name), Some((3, 1)));
        let anew = input.retry_name(3, 2).expect("a name");
        assert_eq!(input.line(&anew), Some((3, 2)));
        assert_eq!(input.line(&"3".parse().expect("a name")), None);
    }

    // Blank lines, both line ends and a line break within a quoted text.
    #[test]
    fn a_job_parsed_alone_equals_the_job_in_its_file() {
        for (text, format) in [
            (
                "{\"api\":\"a\",\"path\":\"/1\"}\r\n\n{\"api\":\"b\",\"path\":\"/2\"}",
                InputFormat::Ndjson,
            ),
            (
                "api,path,body\n\na,/1,\"x\ny\"\r\nb,/2,z\n",
                InputFormat::Csv,
            ),
        ] {
            let input = input(text, format);
            let mut jobs = 0;
            for found in input.jobs() {
                let alone = input.job_at(found.start).and_then(|job| job.order(None));
                assert_eq!(alone, found.job.and_then(|job| job.order(None)));
                assert!(alone.is_ok(), "{alone:?}");
                jobs += 1;
            }
            assert_eq!(jobs, 2);
        }
    }

    // The mark is of the file as it is; the lines are those behind the three bytes.
    #[test]
    fn a_byte_order_mark_is_no_part_of_the_first_line() {
        let dir = tempfile::tempdir().expect("a folder");
        for (name, text) in [
            ("a.ndjson", "\u{feff}{\"api\":\"up\",\"path\":\"/1\"}\n"),
            ("a.csv", "\u{feff}api,path\nup,/1\n"),
        ] {
            let file = dir.path().join(name);
            std::fs::write(&file, text).expect("writable");
            let input = JobInput::read(file.to_str().expect("text"), None).expect("readable");
            let found: Vec<_> = input.jobs().map(|found| found.job.err()).collect();
            assert_eq!(found, [None], "{name}");
        }
    }

    #[test]
    fn the_name_follows_the_bytes() {
        let [one, other] = ["a", "b"].map(|text| input(text, InputFormat::Csv).mark);
        assert_ne!(one, other);
        assert_eq!(one.len(), 16);
    }
}
