//! Table of entries that have an id on the disk and a name.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;

use crate::name::Name;
use crate::tenant::PageRequest;

/// Entry with a name.
pub(crate) trait NamedEntry {
    fn name(&self) -> &Name;
}

/// Entries, by id and by name.
#[derive(Debug)]
pub(crate) struct NamedTable<T> {
    entries: HashMap<u32, T>,
    ids: BTreeMap<Name, u32>,
}

impl<T: NamedEntry> NamedTable<T> {
    pub(crate) fn new() -> Self {
        Self {
            entries: HashMap::new(),
            ids: BTreeMap::new(),
        }
    }

    pub(crate) fn find(&self, name: &Name) -> Option<u32> {
        self.ids.get(name).copied()
    }

    pub(crate) fn find_entry(&self, name: &Name) -> Option<(u32, &T)> {
        let id = self.find(name)?;
        Some((id, self.get(id)?))
    }

    pub(crate) fn find_mut(&mut self, name: &Name) -> Option<(u32, &mut T)> {
        let id = self.find(name)?;
        Some((id, self.get_mut(id)?))
    }

    pub(crate) fn get(&self, id: u32) -> Option<&T> {
        self.entries.get(&id)
    }

    pub(crate) fn get_mut(&mut self, id: u32) -> Option<&mut T> {
        self.entries.get_mut(&id)
    }

    /// Adds an entry, in the place of an earlier one with its name.
    pub(crate) fn insert(&mut self, id: u32, entry: T) {
        if let Some(old) = self.ids.insert(entry.name().clone(), id) {
            self.entries.remove(&old);
        }
        self.entries.insert(id, entry);
    }

    pub(crate) fn remove(&mut self, id: u32) -> Option<T> {
        let entry = self.entries.remove(&id)?;
        if self.find(entry.name()) == Some(id) {
            self.ids.remove(entry.name());
        }
        Some(entry)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        self.entries.iter().map(|(id, entry)| (*id, entry))
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (u32, &mut T)> {
        self.entries.iter_mut().map(|(id, entry)| (*id, entry))
    }

    /// Returns the ids of a page, in the order of names.
    pub(crate) fn page(&self, page: &PageRequest) -> impl Iterator<Item = u32> {
        let after = page.after.clone().map_or(Bound::Unbounded, Bound::Excluded);
        let limit = match page.max {
            0 => DEFAULT_PAGE,
            limit => limit,
        };
        let names = self.ids.range::<Name, _>((after, Bound::Unbounded));
        names.map(|(_, id)| *id).take(limit)
    }
}

/// The size of a page without a limit: enough for a screen, and read in a moment.
const DEFAULT_PAGE: usize = 1_000;
