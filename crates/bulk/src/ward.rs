//! Keeps a job apart from others that may be what kills its workers.
//!
//! When a worker dies, nobody knows which of the jobs it had was the reason. All of them come back, begin
//! together again, and would be buried together when it has happened too often. So a job whose next loss is its last
//! has the process for itself: if that dies again, it was this job, or chance. Others wait meanwhile, which is rare
//! and as long as one attempt. Where a shared store sets instants a job cannot wait for that; there such jobs come
//! back one after the other.

use tokio::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Who works beside whom in this process.
#[derive(Debug, Default)]
pub(crate) struct Ward {
    beds: RwLock<()>,
}

/// Held while a job is under way.
#[derive(Debug)]
pub(crate) enum Stay<'w> {
    /// Beside others.
    Among(#[expect(dead_code, reason = "it is held")] RwLockReadGuard<'w, ()>),
    /// With nobody else.
    Alone(#[expect(dead_code, reason = "it is held")] RwLockWriteGuard<'w, ()>),
}

impl Ward {
    /// Waits until a job that was lost so often may begin, if its next loss after so many is its last.
    pub(crate) async fn enter(&self, recoveries: u32, most: u32) -> Stay<'_> {
        if recoveries > 0 && recoveries >= most {
            Stay::Alone(self.beds.write().await)
        } else {
            Stay::Among(self.beds.read().await)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::task::{Context, Poll, Waker};

    fn poll<T>(future: &mut std::pin::Pin<Box<impl Future<Output = T>>>) -> Poll<T> {
        future
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()))
    }

    #[tokio::test]
    async fn a_job_on_its_last_chance_has_the_process_for_itself() {
        let ward = Ward::default();
        let (one, other) = (ward.enter(0, 2).await, ward.enter(1, 2).await);
        let mut suspect = Box::pin(ward.enter(2, 2));
        assert!(poll(&mut suspect).is_pending(), "two are under way");
        drop((one, other));
        let suspect = suspect.await;
        let mut next = Box::pin(ward.enter(0, 2));
        assert!(poll(&mut next).is_pending(), "it is alone");
        drop(suspect);
        assert!(poll(&mut next).is_ready());
    }
}
