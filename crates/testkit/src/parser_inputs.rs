//! Inputs for laws about foreign data: any bytes, and texts that resemble valid ones.

use proptest::prelude::*;
use proptest::sample::{Index, select};

/// Generates any bytes.
pub fn arbitrary() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..64)
}

/// Generates texts of whole pieces, with up to two bytes changed.
pub fn made_of(pieces: &'static [&'static str], between: &'static str) -> impl Strategy<Value = Vec<u8>> {
    let wounds = prop::collection::vec((any::<Index>(), any::<u8>()), 0..3);
    let texts = prop::collection::vec(select(pieces), 0..12);
    (texts, wounds).prop_map(move |(texts, wounds)| {
        let mut bytes = texts.join(between).into_bytes();
        for (place, byte) in wounds {
            if !bytes.is_empty() {
                *place.get_mut(&mut bytes) = byte;
            }
        }
        bytes
    })
}
