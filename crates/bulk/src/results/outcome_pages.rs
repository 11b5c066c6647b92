//! Outcomes of an action in the order in which jobs ended, page by page.

use outflow_store::{JobOutcome, JobStore, Name, StoreError};

/// Cursor over the outcomes of an action.
pub(crate) struct OutcomePages<'a, S> {
    store: &'a S,
    action: &'a Name,
    after: u64,
}

impl<'a, S: JobStore> OutcomePages<'a, S> {
    pub(crate) const fn new(store: &'a S, action: &'a Name) -> Self {
        Self {
            store,
            action,
            after: 0,
        }
    }

    /// Reads the next page; nothing after the last.
    pub(crate) async fn next(&mut self) -> Result<Option<Vec<JobOutcome>>, StoreError> {
        let page = self.store.outcomes(self.action, self.after, PAGE_SIZE).await?;
        let Some(last) = page.last() else {
            return Ok(None);
        };
        self.after = last.place;
        Ok(Some(page))
    }
}

/// Larger responses would block the store for too long.
const PAGE_SIZE: usize = 500;
