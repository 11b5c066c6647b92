//! Results of jobs: stored, summed up and reported.

pub(crate) mod completion_notifier;
pub(crate) mod failure_reasons;
pub(crate) mod outcome_pages;
pub(crate) mod result_writer;
pub(crate) mod summary;
pub(crate) mod webhook;

use secrecy::SecretString;
use tokio::sync::{Notify, mpsc};

use result_writer::JobReport;

/// Receiver of ended jobs, shared by workers, result writer and completion notifier.
pub(crate) struct ResultSink {
    reports: mpsc::UnboundedSender<JobReport>,
    /// Notified when a job has ended, since an action may have ended with it.
    pub(crate) job_ended: Notify,
    pub(crate) webhook_secret: Option<SecretString>,
}

impl ResultSink {
    pub(crate) fn new(webhook_secret: Option<SecretString>) -> (Self, mpsc::UnboundedReceiver<JobReport>) {
        let (reports, inbox) = mpsc::unbounded_channel();
        let sink = Self {
            reports,
            job_ended: Notify::new(),
            webhook_secret,
        };
        (sink, inbox)
    }

    /// Hands a report to the result writer.
    pub(crate) fn report(&self, report: JobReport) {
        // After the shutdown of the writer the lease expires instead.
        let _closed = self.reports.send(report);
    }
}
