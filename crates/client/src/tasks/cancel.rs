//! The word that ends background work.

use tokio::sync::watch;

/// Tells its holder when to stop. Clones are told together.
///
/// It stays told: whoever asks late, or again, gets the same answer. When everybody who could tell
/// is gone, that is the word too.
#[derive(Clone, Debug)]
pub struct CancelToken {
    word: watch::Receiver<bool>,
}

impl CancelToken {
    /// Waits for the word. Dropping the wait loses nothing.
    pub async fn cancelled(&self) {
        let mut word = self.word.clone();
        // An error means that nobody can tell any more.
        let _gone = word.wait_for(|told| *told).await;
    }

    /// True once the word was given.
    pub fn is_cancelled(&self) -> bool {
        *self.word.borrow() || self.word.has_changed().is_err()
    }
}

/// Who gives the word.
pub(super) fn channel() -> (watch::Sender<bool>, CancelToken) {
    let (tell, word) = watch::channel(false);
    (tell, CancelToken { word })
}
