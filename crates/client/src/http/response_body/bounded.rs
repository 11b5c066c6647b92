//! Reading of a complete body within a memory budget.
//!
//! A body of known length takes all its bytes before the first one is read, so a body that does not fit costs
//! nothing. Another one takes them as its buffer grows. If the budget ends, the reader gets what was read and
//! the rest of the body, to forward both.

use bytes::Bytes;
use http_body::Body;

use super::{BodyAllowance, BodyReadError, IncomingBody};
use crate::memory_budget::{MemoryBudget, MemoryShare};

/// Body that was read completely, or as far as the budget allowed.
pub(crate) enum CollectedBody {
    /// All bytes; those of a small body have no share.
    Whole(Bytes, Option<MemoryShare>),
    /// The first bytes with their share, and the unread rest.
    Spilled(Bytes, MemoryShare, IncomingBody),
}

impl IncomingBody {
    /// Reads the complete body up to a maximum size, as far as the budget allows.
    pub(crate) async fn collect_within(
        mut self,
        max: u64,
        budget: &MemoryBudget,
    ) -> Result<CollectedBody, BodyReadError> {
        let length = self.body.size_hint().exact();
        if length.is_some_and(|length| length <= SMALL_BODY || length > max) {
            let whole = self.collect(max).await?;
            return Ok(CollectedBody::Whole(whole, None));
        }
        let mut buffer = GrowingBuffer {
            bytes: Vec::new(),
            share: budget.empty_share(),
        };
        let fits = length.is_none_or(|length| buffer.grow(length));
        if !fits {
            return Ok(CollectedBody::Spilled(Bytes::new(), buffer.share, self));
        }
        let read = self.read_into(&mut buffer, max).await;
        if read == Err(BodyReadError::TooLarge) {
            self.distrust();
        }
        let is_whole = read?;
        let (bytes, share) = buffer.finish();
        Ok(if is_whole {
            CollectedBody::Whole(bytes, Some(share))
        } else {
            CollectedBody::Spilled(bytes, share, self)
        })
    }

    /// Returns true at the end of the body, false if the budget ended before.
    async fn read_into(&mut self, buffer: &mut GrowingBuffer, max: u64) -> Result<bool, BodyReadError> {
        let mut allowance = BodyAllowance(max);
        while let Some(data) = self.data().await? {
            allowance.take(&data)?;
            let fits = buffer.make_room(data.len());
            // The data is in memory already: without room, only its place changes.
            buffer.bytes.extend_from_slice(&data);
            if !fits {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Buffer whose capacity is taken from the budget.
struct GrowingBuffer {
    bytes: Vec<u8>,
    share: MemoryShare,
}

impl GrowingBuffer {
    /// Doubles the capacity if these bytes need it. Returns false if the budget does not allow it.
    fn make_room(&mut self, more: usize) -> bool {
        let needed = self.bytes.len().saturating_add(more);
        if needed <= self.bytes.capacity() {
            return true;
        }
        let size = needed.max(self.bytes.capacity().saturating_mul(2));
        u64::try_from(size).is_ok_and(|size| self.grow(size))
    }

    fn grow(&mut self, size: u64) -> bool {
        let (true, Ok(capacity)) = (self.share.grow_buffer(size), usize::try_from(size)) else {
            return false;
        };
        self.bytes.reserve_exact(capacity.saturating_sub(self.bytes.len()));
        true
    }

    /// Returns the bytes without unused capacity: a stored body must take what it weighs.
    fn finish(mut self) -> (Bytes, MemoryShare) {
        let bytes = Bytes::from(self.bytes.into_boxed_slice());
        self.share.shrink(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
        (bytes, self.share)
    }
}

/// Size up to which a body is part of the cost of its request.
pub(crate) const SMALL_BODY: u64 = 16 * 1024;
