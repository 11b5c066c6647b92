//! The lines of a file, all validated before the first job is submitted.
//!
//! The file is parsed once. Each valid line keeps id, tenant, lane and cost. Its body is parsed a second time
//! on submission, so that memory holds no body twice.

use std::collections::HashMap;

use outflow::Outflow;
use outflow_bulk::{EngineSettings, JobLine, JobPlacement, JobSpec, Workload};
use outflow_core::WallTime;
use outflow_store::Name;

use super::RunCommand;
use crate::command_line::InvalidLines;
use crate::commands::bulk::input::{InputJob, JobInput};
use crate::terminal::{count, say};

/// A file of jobs whose lines were validated.
pub(super) struct ValidatedFile<'a> {
    pub(super) input: &'a JobInput,
    /// Work of the valid lines.
    pub(super) workload: Workload,
    /// Valid lines.
    pub(super) lines: Vec<FileLine>,
    /// Ids that lines give themselves, also those of invalid lines.
    pub(super) own_ids: Vec<(u64, Name)>,
    /// Invalid lines and their errors.
    errors: Vec<(u64, String)>,
}

/// A valid line.
pub(super) struct FileLine {
    pub(super) number: u64,
    start: usize,
    pub(super) id: Option<Name>,
    tenant: Name,
    placement: JobPlacement,
    not_before: Option<WallTime>,
}

impl FileLine {
    /// Adds the line to a workload.
    pub(super) fn add_to(&self, workload: &mut Workload) {
        workload.add(&self.tenant, &self.placement, self.not_before);
    }
}

impl<'a> ValidatedFile<'a> {
    /// Validates all lines of a file.
    pub(super) fn new(input: &'a JobInput, client: &Outflow, settings: &EngineSettings) -> Self {
        let mut file = Self {
            input,
            workload: Workload::default(),
            lines: Vec::new(),
            own_ids: Vec::new(),
            errors: Vec::new(),
        };
        let mut given = HashMap::new();
        for InputJob { line, start, job } in input.jobs() {
            let spec = job.and_then(|job| file.convert(line, job, &mut given));
            let placed = spec.and_then(|(spec, own)| {
                let placement = spec.placement(client, settings);
                let placement = placement.map_err(|why| why.to_string())?;
                // An invalid line leaves its id to a valid one.
                given.extend(own.map(|id| (id, line)));
                Ok((spec, placement))
            });
            match placed {
                Ok((spec, placement)) => {
                    let line = FileLine {
                        number: line,
                        start,
                        id: spec.id,
                        tenant: spec.tenant,
                        placement,
                        not_before: spec.not_before,
                    };
                    line.add_to(&mut file.workload);
                    file.lines.push(line);
                }
                Err(why) => file.errors.push((line, why)),
            }
        }
        file
    }

    /// Returns the job of a line, and the id that the line gives itself.
    fn convert(
        &mut self,
        line: u64,
        job: JobLine,
        given: &mut HashMap<String, u64>,
    ) -> Result<(JobSpec, Option<String>), String> {
        let own = job.id.clone();
        let name = own.as_ref().and_then(|id| id.parse().ok());
        self.own_ids.extend(name.map(|name| (line, name)));
        if let Some(first) = own.as_ref().and_then(|id| given.get(id)) {
            return Err(format!("id: line {first} has the same id: give each job its own"));
        }
        Ok((job.into_spec(self.input.line_id(line))?, own))
    }

    /// Parses the job of a line again, to submit it.
    pub(super) fn job(&self, line: &FileLine) -> Option<JobSpec> {
        let job = self.input.job_at(line.start).ok()?;
        job.into_spec(self.input.line_id(line.number)).ok()
    }

    /// Fails if the file has no valid line, or invalid ones without `--skip-invalid`.
    pub(super) fn accept(&self, run: &RunCommand) -> Result<(), InvalidLines> {
        let file = &run.file;
        let (good, bad) = (self.lines.len(), self.errors.len());
        let lines = self.errors.iter();
        let lines = lines.map(|(line, why)| format!("{file}:{line}: {why}"));
        let message = match (good, bad) {
            (0, _) => {
                format!("`{file}` has no valid job: see `outflow bulk run --help` for the format")
            }
            (_, 0) => return Ok(()),
            _ if run.skip_invalid => {
                lines.for_each(|line| say!("{line}"));
                let skipped = count(bad, "line", "lines");
                say!("skipped {skipped}; {good} left");
                return Ok(());
            }
            _ => format!(
                "{} invalid, and nothing was sent: fix the errors above, or skip the lines with `--skip-invalid`",
                count(bad, "line is", "lines are")
            ),
        };
        let lines = lines.collect();
        Err(InvalidLines { message, lines })
    }
}
