//! Every line of a file, checked before any of it is taken.

use std::collections::HashMap;

use outflow::Outflow;
use outflow_bulk::{Order, Settings, Standing};
use outflow_store::Name;

use super::Run;
use crate::bulk::Demand;
use crate::commands::bulk::input::Input;
use crate::terminal::{Terminal, count, say};

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

    /// Whether nothing is to be sent; says why.
    pub(super) fn is_refused(&self, run: &Run, terminal: Terminal) -> bool {
        let file = &run.file;
        for (line, why) in &self.wrong {
            say!("{file}:{line}: {why}");
        }
        let (good, bad) = (self.demand.jobs(), self.wrong.len());
        if good == 0 {
            let alarm = terminal.alarm("error:");
            say!(
                "{alarm} `{file}` holds no job that can be done: `outflow bulk run --help` says how one is written"
            );
            return true;
        }
        if bad == 0 {
            return false;
        }
        if run.skip_invalid {
            say!(
                "{} left out; {good} to be done",
                count(bad, "line is", "lines are")
            );
            return false;
        }
        let alarm = terminal.alarm("error:");
        say!(
            "{alarm} {} wrong, and nothing was sent: mend what is told above, or leave it out with `--skip-invalid`",
            count(bad, "line is", "lines are")
        );
        true
    }
}

/// The orders of a file, each with its line and where it would stand.
pub(super) struct Orders<'a> {
    jobs: Box<dyn Iterator<Item = (u64, Result<crate::bulk::JobLine, String>)> + 'a>,
    input: &'a Input,
    client: &'a Outflow,
    settings: &'a Settings,
    /// Names that were given, and by which line.
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
        if let Some(id) = &job.id
            && let Some(first) = self.given.insert(id.clone(), line)
        {
            return Err(format!(
                "id: line {first} has the same: give each job its own"
            ));
        }
        let unnamed: Option<Name> = self.input.name(line);
        let order = job.order(unnamed)?;
        let standing = order.standing(self.client, self.settings);
        let standing = standing.map_err(|why| why.to_string())?;
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
