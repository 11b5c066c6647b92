//! The section `[admin]`: address of the admin API.

use outflow_config::{Environment, Section, SectionChanges, TableReader};
use secrecy::SecretString;

use outflow_listener::{ListenTarget, read_listener};

/// Configuration of the admin API.
#[derive(Clone, Debug)]
pub struct AdminConfig {
    /// Address for operators.
    pub listen: ListenTarget,
    /// Token that an operator must send; `None` asks for none.
    pub token: Option<SecretString>,
}

impl Default for AdminConfig {
    /// This machine only.
    fn default() -> Self {
        Self {
            listen: ListenTarget::local(7071),
            token: None,
        }
    }
}

impl Section for AdminConfig {
    const NAME: &'static str = "admin";

    fn read(table: &TableReader<'_>, environment: &Environment) -> Self {
        let (listen, token) = read_listener(table, environment, Self::default().listen);
        Self { listen, token }
    }

    fn restart_keys(&self, new: &Self) -> Vec<String> {
        SectionChanges::differing([("admin.listen", self.listen != new.listen)])
    }
}
