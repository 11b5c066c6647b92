//! Every line of a file, checked before any of it is taken.

use std::collections::HashMap;

use outflow::Outflow;
use outflow_bulk::{EngineSettings, JobPlacement, JobSpec, Workload};
use outflow_store::Name;

use super::RunCommand;
use crate::command_line::InvalidLines;
use crate::commands::bulk::input::JobInput;
use crate::terminal::{count, say};

/// What is in a file.
pub(super) struct ValidatedFile {
    /// What its good lines want.
    pub(super) demand: Workload,
    /// The bad ones, and what is wrong with each.
    wrong: Vec<(u64, String)>,
}

impl ValidatedFile {
    /// Goes through all lines.
    pub(super) fn new(input: &JobInput, client: &Outflow, settings: &EngineSettings) -> Self {
        let (mut demand, mut wrong) = (Workload::default(), Vec::new());
        for (line, read) in FileJobs::new(input, client, settings) {
            match read {
                Ok((order, standing)) => demand.add(&order.tenant, &standing, order.not_before),
                Err(why) => wrong.push((line, why)),
            }
        }
        Self { demand, wrong }
    }

    /// Lets a file pass of which something is to be sent, or says why nothing is.
    pub(super) fn pass(&self, run: &RunCommand) -> Result<(), InvalidLines> {
        let file = &run.file;
        let (good, bad) = (self.demand.jobs(), self.wrong.len());
        let lines = self.wrong.iter();
        let lines = lines.map(|(line, why)| format!("{file}:{line}: {why}"));
        let words = match (good, bad) {
            (0, _) => format!(
                "`{file}` holds no job that can be done: `outflow bulk run --help` says how one is written"
            ),
            (_, 0) => return Ok(()),
            _ if run.skip_invalid => {
                lines.for_each(|line| say!("{line}"));
                let left_out = count(bad, "line is", "lines are");
                say!("{left_out} left out; {good} to be done");
                return Ok(());
            }
            _ => format!(
                "{} wrong, and nothing was sent: mend what is told above, or leave it out with `--skip-invalid`",
                count(bad, "line is", "lines are")
            ),
        };
        let lines = lines.collect();
        Err(InvalidLines { words, lines })
    }
}

/// The orders of a file, each with its line and where it would stand.
pub(super) struct FileJobs<'a> {
    jobs: Box<dyn Iterator<Item = (u64, Result<outflow_bulk::JobLine, String>)> + 'a>,
    input: &'a JobInput,
    client: &'a Outflow,
    settings: &'a EngineSettings,
    /// Names that were given by lines that are right, and by which.
    given: HashMap<String, u64>,
}

impl<'a> FileJobs<'a> {
    pub(super) fn new(
        input: &'a JobInput,
        client: &'a Outflow,
        settings: &'a EngineSettings,
    ) -> Self {
        Self {
            jobs: input.jobs(),
            input,
            client,
            settings,
            given: HashMap::new(),
        }
    }

    fn read(
        &mut self,
        line: u64,
        job: Result<outflow_bulk::JobLine, String>,
    ) -> Result<(JobSpec, JobPlacement), String> {
        let job = job?;
        let given = job.id.clone();
        if let Some(first) = given.as_ref().and_then(|id| self.given.get(id)) {
            return Err(format!(
                "id: line {first} has the same: give each job its own"
            ));
        }
        let unnamed: Option<Name> = self.input.name(line);
        let order = job.order(unnamed)?;
        let standing = order.placement(self.client, self.settings);
        let standing = standing.map_err(|why| why.to_string())?;
        // A line that is wrong leaves its name to one that is right.
        self.given.extend(given.map(|id| (id, line)));
        Ok((order, standing))
    }
}

impl Iterator for FileJobs<'_> {
    type Item = (u64, Result<(JobSpec, JobPlacement), String>);

    fn next(&mut self) -> Option<Self::Item> {
        let (line, job) = self.jobs.next()?;
        Some((line, self.read(line, job)))
    }
}
