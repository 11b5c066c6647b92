//! Numbers that the store assigns.

use crate::name::Name;

/// The last assigned numbers, and the parts of generated names.
#[derive(Debug, Default)]
pub(crate) struct IdAllocator {
    /// The last id of a lane, tenant, queue or action.
    last_id: u32,
    /// The last job that the state knows.
    pub(crate) last_seq: u64,
    /// The number of times that this store was opened.
    pub(crate) epoch: u64,
    /// The prefix of generated job names.
    pub(crate) name_prefix: String,
}

impl IdAllocator {
    /// Assigns the id of a lane, tenant, queue or action.
    pub(crate) const fn next_id(&mut self) -> u32 {
        self.last_id += 1;
        self.last_id
    }

    /// Notes an id that is in use.
    pub(crate) fn observe(&mut self, id: u32) {
        self.last_id = self.last_id.max(id);
    }

    /// Generates the name of a job that was submitted without one.
    pub(crate) fn job_name(&self, seq: u64) -> Option<Name> {
        generate_name(&self.name_prefix, seq)
    }
}

/// Generates the name of a job that was submitted without one.
pub(crate) fn generate_name(prefix: &str, seq: u64) -> Option<Name> {
    Name::new(&format!("{prefix}-{seq}")).ok()
}
