//! Events of the engine.

pub(crate) mod event_log;

use outflow::event::Event;
use outflow::{Outflow, SharedTimer};
use outflow_core::CongestionAlert;
use outflow_store::{ActionReport, Name, SettleResult};
use tokio::sync::broadcast;

use event_log::EventLog;

/// Event of the engine.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum BulkEvent {
    /// Jobs were submitted.
    Submitted {
        /// Their action.
        action: Option<Name>,
        /// Number of accepted jobs.
        jobs: u64,
    },
    /// A claim ended.
    Settled {
        /// Job.
        id: Name,
        /// Tenant of the job.
        tenant: Name,
        /// Action of the job.
        action: Option<Name>,
        /// Result of the claim.
        how: SettleResult,
    },
    /// An action ended.
    Finished {
        /// State at its end.
        report: ActionReport,
    },
    /// Jobs of a dead worker were recovered.
    Reaped {
        /// Number of jobs that returned to their queues.
        returned: u64,
        /// Number of dead-lettered jobs.
        dead_lettered: u64,
    },
    /// The lease expired: other processes have this process's jobs.
    LeaseLost,
    /// A request to the store failed and is retried, jobs cannot be served, or a webhook is unreachable.
    Error {
        /// Error message.
        message: String,
    },
    /// An alert about a tenant began or ended. The operator's action is its
    /// [`advice`](CongestionAlert::advice). Only the hundred tenants with the most jobs raise alerts.
    Alert {
        /// Tenant.
        tenant: Name,
        /// Alert.
        alert: CongestionAlert,
        /// True if it began, false if it ended.
        raised: bool,
    },
    /// The store's counts differ from its jobs, which is a bug of the store.
    Drift {
        /// Sum of the differences.
        jobs: u64,
    },
}

/// Sender of events to subscribers and to the client's log.
pub(crate) struct EventSink {
    client: Outflow,
    clock: SharedTimer,
    sender: broadcast::Sender<BulkEvent>,
    log: EventLog,
}

impl EventSink {
    pub(crate) fn new(client: &Outflow, clock: &SharedTimer) -> Self {
        Self {
            client: client.clone(),
            clock: SharedTimer::clone(clock),
            sender: broadcast::Sender::new(CAPACITY),
            log: EventLog::default(),
        }
    }

    /// Sends an event to all subscribers, and to the log if an operator needs it.
    pub(crate) fn emit(&self, event: BulkEvent) {
        let at = self.clock.now();
        if let Some(what) = self.log.classify(&event, at) {
            let api = "bulk".into();
            self.client.events().notify(&Event {
                api,
                at,
                trace: outflow::trace::TraceId::default(),
                what,
            });
        }
        let _no_subscriber = self.sender.send(event);
    }

    pub(crate) fn subscribe(&self) -> broadcast::Receiver<BulkEvent> {
        self.sender.subscribe()
    }
}

/// A dashboard falls behind by about this many.
const CAPACITY: usize = 1_024;
