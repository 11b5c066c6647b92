//! Configuration of the program: the client's, and the sections of its own.
//!
//! All sections are read from one document, so that one reading reports every error of the file.

mod self_loop;

use outflow::config::{Config, Diagnostics, Environment, SECTIONS, Section, SharedLimits, Source, load};
use outflow_admin::AdminConfig;
use outflow_bulk::config::BulkConfig;
use outflow_sidecar::ServerConfig;

use crate::shared_ledger;

/// All sections of a configuration file.
#[derive(Clone, Debug)]
pub struct ProgramConfig {
    /// The client's sections, with warnings and origins of the whole file.
    pub client: Config,
    /// The sidecar.
    pub server: ServerConfig,
    /// The admin API.
    pub admin: AdminConfig,
    /// The bulk engine.
    pub bulk: BulkConfig,
}

impl ProgramConfig {
    /// Reads texts, later ones over earlier ones, and the environment over all.
    ///
    /// # Errors
    /// Returns all diagnostics, warnings included, if one of them is an error.
    pub fn read(sources: &[Source], environment: &Environment) -> Result<Self, Diagnostics> {
        let document = load(sources, environment);
        let mut client = Config::read_sections(&document, environment);
        // A program knows no other process that counts for it; a library may have one.
        client.shared.limits.get_or_insert(SharedLimits::Auto);
        let server: ServerConfig = document.read(environment);
        let admin: AdminConfig = document.read(environment);
        let bulk: BulkConfig = document.read(environment);
        let listeners = [("server", &server.listen), ("admin", &admin.listen)];
        self_loop::check_apis(&document, &client.apis, listeners);
        shared_ledger::check(&document, &client.shared, &bulk);
        Ok(Self {
            client: client.with_summary(document.close(&SECTIONS)?),
            server,
            admin,
            bulk,
        })
    }

    /// Returns a copy without the client's sections, for a later comparison.
    pub(crate) fn own_sections(&self) -> Self {
        Self {
            client: Config::from([]),
            ..self.clone()
        }
    }

    /// Returns the keys of the program's own sections that need a restart; `self` is the configuration at
    /// the start.
    pub(crate) fn restart_keys(&self, new: &Self) -> Vec<String> {
        let server = self.server.restart_keys(&new.server).into_iter();
        let admin = self.admin.restart_keys(&new.admin);
        server.chain(admin).chain(self.bulk.restart_keys(&new.bulk)).collect()
    }
}
