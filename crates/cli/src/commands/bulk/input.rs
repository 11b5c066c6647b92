//! A file of jobs: lines of JSON, or CSV.
//!
//! The file is read once, so a concurrent write changes nothing. Every job keeps its line number,
//! which errors and generated ids use. It also keeps its start, from which it is parsed again on submission.

mod csv_rows;

use std::io::Read;
use std::path::Path;

use anyhow::Context;
use clap::ValueEnum;
use outflow_bulk::JobLine;
use outflow_store::Name;

/// Format of a job file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum InputFormat {
    /// An object of JSON on every line.
    Ndjson,
    /// Rows under names of columns.
    Csv,
}

/// A file of jobs.
pub(super) struct JobInput {
    /// File name without folder and extension.
    pub(super) stem: String,
    /// Hash of the bytes.
    pub(super) mark: String,
    bytes: Vec<u8>,
    format: InputFormat,
}

impl JobInput {
    /// Reads a file, or the standard input for `-`.
    pub(super) fn read(file: &str, format: Option<InputFormat>) -> anyhow::Result<Self> {
        let (stem, bytes) = if file == "-" {
            let mut bytes = Vec::new();
            let read = std::io::stdin().read_to_end(&mut bytes);
            read.context("cannot read jobs from the standard input")?;
            ("stdin".to_owned(), bytes)
        } else {
            let bytes = std::fs::read(file);
            let bytes = bytes.with_context(|| format!("cannot read `{file}`"))?;
            let stem = Path::new(file).file_stem().unwrap_or_default();
            (stem.to_string_lossy().into_owned(), bytes)
        };
        let extension = Path::new(file).extension();
        let is_csv = extension.is_some_and(|extension| extension.eq_ignore_ascii_case("csv"));
        let default = if is_csv { InputFormat::Csv } else { InputFormat::Ndjson };
        let mark = mark(&bytes);
        Ok(Self {
            stem,
            mark,
            bytes: without_bom(bytes),
            format: format.unwrap_or(default),
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

    /// Returns the id of a line without one. It is equal in every run of the file.
    pub(super) fn line_id(&self, line: u64) -> Option<Name> {
        Name::new(&format!("{}-{line}", self.mark)).ok()
    }

    /// Returns the id of a retry of a failed line. The store would take the first id for a duplicate.
    pub(super) fn retry_id(&self, line: u64, round: u32) -> Option<Name> {
        Name::new(&format!("{}-{line}.{round}", self.mark)).ok()
    }

    /// Returns the line and the round of a generated id.
    pub(super) fn find_line(&self, name: &Name) -> Option<(u64, u32)> {
        let rest = name.as_str().strip_prefix(&self.mark)?;
        let rest = rest.strip_prefix('-')?;
        let (line, round) = match rest.split_once('.') {
            Some((line, round)) => (line, round.parse().ok()?),
            None => (rest, 1),
        };
        Some((line.parse().ok()?, round))
    }
}

/// Removes the byte order mark that some editors write.
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
    let text = text.map_err(|_| "is not UTF-8: save the file as UTF-8".to_owned());
    text.and_then(JobLine::from_json)
}

/// One job of a file.
pub(super) struct InputJob {
    /// Line number.
    pub(super) line: u64,
    /// Offset of its first byte.
    pub(super) start: usize,
    /// The job, or its errors.
    pub(super) job: Result<JobLine, String>,
}

/// Returns sixteen digits of a hash: files of one machine never share them by chance.
fn mark(bytes: &[u8]) -> String {
    let hash = blake3::hash(bytes).to_hex();
    hash.get(..16).unwrap_or_default().to_owned()
}

/// Byte order mark, which UTF-8 does not need.
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
        let found: Vec<_> = input.jobs().map(|found| (found.line, found.job.is_ok())).collect();
        assert_eq!(found, [(1, true), (3, false), (4, false)]);
        let name = input.line_id(3).expect("a name");
        assert_eq!(input.find_line(&name), Some((3, 1)));
        let retry = input.retry_id(3, 2).expect("a name");
        assert_eq!(input.find_line(&retry), Some((3, 2)));
        assert_eq!(input.find_line(&"3".parse().expect("a name")), None);
    }

    // Blank lines, both line ends and a line break within a quoted text.
    #[test]
    fn a_job_parsed_alone_equals_the_job_in_its_file() {
        for (text, format) in [
            (
                "{\"api\":\"a\",\"path\":\"/1\"}\r\n\n{\"api\":\"b\",\"path\":\"/2\"}",
                InputFormat::Ndjson,
            ),
            ("api,path,body\n\na,/1,\"x\ny\"\r\nb,/2,z\n", InputFormat::Csv),
        ] {
            let input = input(text, format);
            let mut jobs = 0;
            for found in input.jobs() {
                let alone = input.job_at(found.start).and_then(|job| job.into_spec(None));
                assert_eq!(alone, found.job.and_then(|job| job.into_spec(None)));
                assert!(alone.is_ok(), "{alone:?}");
                jobs += 1;
            }
            assert_eq!(jobs, 2);
        }
    }

    // The hash includes the three bytes; the first line does not.
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
    fn the_hash_follows_the_bytes() {
        let [one, other] = ["a", "b"].map(|text| input(text, InputFormat::Csv).mark);
        assert_ne!(one, other);
        assert_eq!(one.len(), 16);
    }
}
