//! Every line of a file, checked before any of it is taken.

use std::collections::HashMap;

use outflow::Outflow;
use outflow_bulk::{Order, Settings, Standing};
use outflow_store::Name;

use super::Run;
use crate::bulk::Demand;
use crate::command_line::WrongLines;
use crate::commands::bulk::input::Input;
use crate::terminal::{count, say};

/// What is in a file.
pub(super) struct Checked {
    /// What its good lines want.
    pub(super) demand: Demand,
    /// The bad ones, and what is wrong with each.
    wrong: Vec<(u64, String)>,
}

impl Checked {
    /// Goes through all lines.
    pub(super) fn of(input: &Input, client: &Outflow, settings: &Settings) -> Self {
        let (mut demand, mut wrong) = (Demand::default(), Vec::new());
        for (line, read) in Orders::of(input, client, settings) {
            match read {
                Ok((order, standing)) => demand.add(&order.tenant, &standing, order.not_before),
                Err(why) => wrong.push((line, why)),
            }
        }
        Self { demand, wrong }
    }

    /// Lets a file pass of which something is to be sent, or says why nothing is.
    pub(super) fn pass(&self, run: &Run) -> Result<(), WrongLines> {
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
        Err(WrongLines { words, lines })
    }
}

/// The orders of a file, each with its line and where it would stand.
pub(super) struct Orders<'a> {
    jobs: Box<dyn Iterator<Item = (u64, Result<crate::bulk::JobLine, String>)> + 'a>,
    input: &'a Input,
    client: &'a Outflow,
    settings: &'a Settings,
    /// Names that were given by lines that are right, and by which.
    given: HashMap<String, u64>,
}

impl<'a> Orders<'a> {
    pub(super) fn of(input: &'a Input, client: &'a Outflow, settings: &'a Settings) -> Self {
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
        job: Result<crate::bulk::JobLine, String>,
    ) -> Result<(Order, Standing), String> {
        let job = job?;
        let given = job.id.clone();
        if let Some(first) = given.as_ref().and_then(|id| self.given.get(id)) {
            return Err(format!(
                "id: line {first} has the same: give each job its own"
            ));
        }
        let unnamed: Option<Name> = self.input.name(line);
        let order = job.order(unnamed)?;
        let standing = order.standing(self.client, self.settings);
        let standing = standing.map_err(|why| why.to_string())?;
        // A line that is wrong leaves its name to one that is right.
        self.given.extend(given.map(|id| (id, line)));
        Ok((order, standing))
    }
}

impl Iterator for Orders<'_> {
    type Item = (u64, Result<(Order, Standing), String>);

    fn next(&mut self) -> Option<Self::Item> {
        let (line, job) = self.jobs.next()?;
        Some((line, self.read(line, job)))
    }
}
