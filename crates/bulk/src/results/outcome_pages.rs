//! Outcomes of an action, in the order in which they came, a page at a time.

use outflow_store::{JobOutcome, JobStore, Name, StoreError};

/// Where somebody is who reads them.
pub(crate) struct OutcomePages<'a, S> {
    store: &'a S,
    action: &'a Name,
    after: u64,
}

impl<'a, S: JobStore> OutcomePages<'a, S> {
    /// Before the first.
    pub(crate) const fn new(store: &'a S, action: &'a Name) -> Self {
        Self {
            store,
            action,
            after: 0,
        }
    }

    /// The next page; nothing after the last.
    pub(crate) async fn next(&mut self) -> Result<Option<Vec<JobOutcome>>, StoreError> {
        let page = self.store.outcomes(self.action, self.after, PAGE).await?;
        let Some(last) = page.last() else {
            return Ok(None);
        };
        self.after = last.place;
        Ok(Some(page))
    }
}

/// As many outcomes as one answer of a store should hold.
const PAGE: usize = 500;
