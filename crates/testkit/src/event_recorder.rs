//! An observer that records the events of a client.
//!
//! It needs the client crate, so it is behind the feature `client`: tests of the core do not compile
//! the client for it.

use std::sync::Arc;

use outflow::event::{CallFinished, EventKind};
use outflow::{Event, Events, Observer};
use outflow_sync::Mutex;

/// Records every event, in order; clones share the record.
#[derive(Clone, Default, Debug)]
pub struct EventRecorder(Arc<Mutex<Vec<Event>>>);

impl EventRecorder {
    /// Builds a recorder that observes these events.
    pub fn subscribed_to(events: &Events) -> Self {
        let recorder = Self::default();
        events.subscribe(Arc::new(recorder.clone()));
        recorder
    }

    /// Returns all events so far.
    pub fn all(&self) -> Vec<Event> {
        self.0.lock().clone()
    }

    /// Returns the end of every finished call so far.
    pub fn finished(&self) -> Vec<CallFinished> {
        self.select(|kind| match kind {
            EventKind::Finished(finished) => Some((**finished).clone()),
            _ => None,
        })
    }

    /// Returns the selected part of all events so far.
    pub fn select<T>(&self, pick: impl Fn(&EventKind) -> Option<T>) -> Vec<T> {
        self.0.lock().iter().filter_map(|event| pick(&event.what)).collect()
    }

    /// Removes and returns all events.
    pub fn take(&self) -> Vec<Event> {
        std::mem::take(&mut *self.0.lock())
    }

    /// Removes all events and returns the selected part.
    pub fn take_selected<T>(&self, pick: impl Fn(&EventKind) -> Option<T>) -> Vec<T> {
        self.take().iter().filter_map(|event| pick(&event.what)).collect()
    }
}

impl Observer for EventRecorder {
    fn observe(&self, event: &Event) {
        self.0.lock().push(event.clone());
    }
}
