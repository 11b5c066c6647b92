//! Labels of endpoints, which permits, events and logs name.
//!
//! A call holds the number of its label and not its text, so that a target stays `Copy` and a waiter small.
//! Metrics have no label for it: the group bounds their series. The number of labels is bounded as well,
//! because a program may build a label from data.

use std::collections::HashMap;

use outflow_sync::Mutex;
use smol_str::SmolStr;

use crate::metrics::OTHER;
use crate::redact;
use crate::trace::TraceId;

/// Number of an endpoint's label; the default is no label.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct EndpointLabel(u16);

/// Labels of an upstream.
#[derive(Debug, Default)]
pub(super) struct EndpointTable {
    names: Mutex<EndpointNames>,
}

#[derive(Debug, Default)]
struct EndpointNames {
    labels: HashMap<SmolStr, EndpointLabel>,
    names: Vec<SmolStr>,
}

/// What events name a call by, beside its group.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CallLabel {
    pub(super) endpoint: EndpointLabel,
    pub(super) trace: TraceId,
}

/// Group and label of a call, which events name.
#[derive(Clone, Copy, Debug)]
pub(super) struct CallSubject {
    pub(super) group: u32,
    pub(super) label: CallLabel,
}

impl EndpointTable {
    /// Returns the label of this name. Beyond the maximum, all new names are `other`.
    pub(super) fn label(&self, name: &str) -> EndpointLabel {
        let mut table = self.names.lock();
        if let Some(label) = table.labels.get(name) {
            return *label;
        }
        table.add(bounded_name(name))
    }

    /// Returns the name of a label; a label of another upstream may have none.
    pub(super) fn name(&self, label: EndpointLabel) -> Option<SmolStr> {
        let index = usize::from(label.0).checked_sub(1)?;
        self.names.lock().names.get(index).cloned()
    }
}

impl EndpointNames {
    fn add(&mut self, name: SmolStr) -> EndpointLabel {
        if name.is_empty() {
            return EndpointLabel::default();
        }
        let is_full = self.names.len() >= MAX_ENDPOINTS;
        let name = if is_full { SmolStr::new_static(OTHER) } else { name };
        if let Some(label) = self.labels.get(&name) {
            return *label;
        }
        self.names.push(name.clone());
        let label = EndpointLabel(u16::try_from(self.names.len()).unwrap_or(u16::MAX));
        self.labels.insert(name, label);
        label
    }
}

/// Returns a name without query and secrets, cut to the maximal length.
fn bounded_name(name: &str) -> SmolStr {
    let name = redact::path(name);
    if name.len() <= MAX_NAME {
        return name;
    }
    SmolStr::new(&name[..name.floor_char_boundary(MAX_NAME)])
}

/// More than the endpoints of the largest APIs in use, and a few dozen kilobytes at most.
const MAX_ENDPOINTS: usize = 1_000;

/// Longer than any path pattern in the presets.
const MAX_NAME: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_one_label() {
        let table = EndpointTable::default();
        let (order, cancel) = (table.label("order"), table.label("cancel"));
        assert_ne!(order, cancel);
        assert_eq!(table.label("order"), order);
        assert_eq!(table.name(cancel).as_deref(), Some("cancel"));
        assert_eq!(table.name(EndpointLabel::default()), None);
        assert_eq!(table.label(""), EndpointLabel::default());
        assert_eq!(table.name(EndpointLabel(9)), None, "a label of another upstream");
    }

    // A program that uses identifiers as endpoints: the table ends with `other`, known names stay.
    #[test]
    fn labels_are_bounded_in_number_and_length() {
        let table = EndpointTable::default();
        let first = table.label("order");
        for number in 0..3 * MAX_ENDPOINTS {
            let _label = table.label(&format!("order/{number}"));
        }
        assert_eq!(table.names.lock().names.len(), MAX_ENDPOINTS + 1);
        assert_eq!(table.name(table.label("new")).as_deref(), Some(OTHER));
        assert_eq!(table.label("order"), first);
        let long = EndpointTable::default();
        let label = long.label(&"ä/".repeat(100));
        assert!(long.name(label).is_some_and(|name| name.len() <= MAX_NAME));
    }

    #[test]
    fn a_query_is_no_part_of_a_name() {
        let table = EndpointTable::default();
        let label = table.label("/ticker?key=abc");
        assert_eq!(table.name(label).as_deref(), Some("/ticker"));
    }
}
