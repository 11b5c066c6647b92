//! Section `[shared]`: where processes of one host keep their common limits.

use std::path::PathBuf;

use outflow_config::value_readers::{read_choice, read_path};
use outflow_config::{Environment, Section, SectionChanges, TableReader, read_fields};
use outflow_ledger::LedgerDir;

/// Limits that processes share.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SharedSection {
    /// Who shares the limits; `None` leaves it to the program.
    pub limits: Option<SharedLimits>,
    /// Directory of the accounts; `None` is the user's state directory.
    pub dir: Option<PathBuf>,
    /// The user's state directory, if the environment names one.
    pub default_dir: Option<PathBuf>,
}

outflow_core::named_enum! {
    /// Processes that share limits.
    pub enum SharedLimits {
        /// None: each process counts its own calls, from its start.
        Off = "off",
        /// All of this host. Where that is not possible the process works alone, with a warning.
        Auto = "auto",
        /// All of this host. A process that cannot share does not start.
        Host = "host",
    }
}

impl SharedSection {
    /// Returns the directory of the accounts.
    pub fn ledger_dir(&self) -> Option<&PathBuf> {
        self.dir.as_ref().or(self.default_dir.as_ref())
    }
}

impl Section for SharedSection {
    const NAME: &'static str = "shared";

    fn read(table: &TableReader<'_>, environment: &Environment) -> Self {
        let variable = |name: &str| environment.value(name).map(PathBuf::from);
        let mut section = Self {
            default_dir: LedgerDir::default_path(variable),
            ..Self::default()
        };
        read_fields!(table => section,
            limits: |item| read_choice(&SharedLimits::NAMED)(item).map(Some),
            dir: |item| read_path(item).map(Some),
        );
        section
    }

    fn restart_keys(&self, new: &Self) -> Vec<String> {
        SectionChanges::differing([
            ("shared.limits", self.limits != new.limits),
            ("shared.dir", self.dir != new.dir),
        ])
    }
}
