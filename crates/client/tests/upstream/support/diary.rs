//! An observer that writes everything down.

use std::sync::Mutex;

use outflow::event::EventKind;
use outflow::{Event, Observer};

/// All events, in the order in which they were told.
#[derive(Default)]
pub(crate) struct Diary(Mutex<Vec<Event>>);

impl Diary {
    /// What was told since the last time.
    pub(crate) fn read(&self) -> Vec<Event> {
        std::mem::take(&mut *self.0.lock().expect("no writer panics"))
    }

    /// Those of one kind that were told since the last time; the rest is forgotten.
    pub(crate) fn of<T>(&self, kind: impl Fn(&EventKind) -> Option<T>) -> Vec<T> {
        let told = self.read();
        told.iter().filter_map(|event| kind(&event.what)).collect()
    }
}

impl Observer for Diary {
    fn observe(&self, event: &Event) {
        let mut told = self.0.lock().expect("no writer panics");
        told.push(event.clone());
    }
}
