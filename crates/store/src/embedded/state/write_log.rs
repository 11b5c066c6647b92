//! Changes of the state that the writer has not taken yet.

use std::mem;

use tokio::sync::oneshot;

use crate::embedded::disk::write_op::{WriteOp, WriteStep};
use crate::embedded::ops::audit::AuditRequest;
use crate::embedded::state::claims::ClaimState;
use crate::error::StoreError;

/// A caller that waits until its changes are written.
pub(crate) type WriteWaiter = oneshot::Sender<Result<(), StoreError>>;

/// Changes in the order in which they happened, and the callers that wait for them.
#[derive(Debug, Default)]
pub(crate) struct WriteLog {
    pub(crate) steps: Vec<WriteStep>,
    pub(crate) waiters: Vec<WriteWaiter>,
    pub(crate) audits: Vec<AuditRequest>,
    /// A step must be on the disk before its caller gets a response.
    pub(crate) needs_sync: bool,
}

impl WriteLog {
    pub(crate) const fn is_idle(&self) -> bool {
        self.steps.is_empty() && self.waiters.is_empty() && self.audits.is_empty()
    }

    pub(crate) const fn len(&self) -> usize {
        self.steps.len()
    }

    pub(crate) fn record(&mut self, op: WriteOp) {
        self.steps.push(WriteStep { op, undo: None });
    }

    /// Records a change that must be on the disk before the response.
    pub(crate) fn record_synced(&mut self, op: WriteOp) {
        self.needs_sync = true;
        self.record(op);
    }

    /// Attaches the claim that a step ended, for the case that the step cannot be written.
    pub(crate) fn set_undo(&mut self, step: usize, claim: ClaimState) {
        if let Some(step) = self.steps.get_mut(step) {
            step.undo = Some(claim);
        }
    }

    /// Takes everything, and leaves an empty log.
    pub(crate) fn take(&mut self) -> Self {
        mem::take(self)
    }
}
