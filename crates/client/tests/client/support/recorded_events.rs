//! An observer that remembers every event.

use std::sync::{Arc, Mutex};

use outflow::event::{CallFinished, EventKind};
use outflow::{Event, Events, Observer};

/// Remembers every event.
#[derive(Clone, Default)]
pub(crate) struct Heard(Arc<Mutex<Vec<Event>>>);

impl Heard {
    pub(crate) fn on(events: &Events) -> Self {
        let heard = Self::default();
        events.subscribe(Arc::new(heard.clone()));
        heard
    }

    pub(crate) fn all(&self) -> Vec<Event> {
        self.0.lock().expect("no panic").clone()
    }

    pub(crate) fn finished(&self) -> Vec<CallFinished> {
        let pick = |event: Event| match event.what {
            EventKind::Finished(finished) => Some(*finished),
            _ => None,
        };
        self.all().into_iter().filter_map(pick).collect()
    }
}

impl Observer for Heard {
    fn observe(&self, event: &Event) {
        self.0.lock().expect("no panic").push(event.clone());
    }
}
