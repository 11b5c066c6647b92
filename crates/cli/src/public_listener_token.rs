//! Token rule of public listeners: a listener that other machines can reach needs a token.

use outflow_listener::ListenAddr;

use crate::config::ProgramConfig;

/// Actual exposure of the listeners to other machines. A service manager may have opened them, and a reload
/// does not move them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ProgramExposure {
    sidecar_exposed: bool,
    admin_exposed: bool,
}

impl ProgramExposure {
    pub(crate) const fn new(sidecar: &ListenAddr, admin: &ListenAddr) -> Self {
        Self {
            sidecar_exposed: !sidecar.is_local(),
            admin_exposed: !admin.is_local(),
        }
    }

    /// Returns the section whose listener would be open to other machines without a token.
    pub(crate) const fn missing_token(self, config: &ProgramConfig) -> Option<&'static str> {
        if self.sidecar_exposed && config.server.token.is_none() {
            return Some("server");
        }
        if self.admin_exposed && config.admin.token.is_none() {
            return Some("admin");
        }
        None
    }
}
