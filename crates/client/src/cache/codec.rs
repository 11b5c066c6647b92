//! A slot as the bytes of a file.
//!
//! A few lines of our own rather than a format: everything is lengths and bytes, the answer's body must
//! not be copied on the way back, and the reader has to survive any file. Before a byte is believed the
//! mark is checked, a keyed hash over the key and the rest: a flipped bit, a cut end, another cache's
//! file or one under another name is no answer. Another version of the format begins otherwise.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, BufMut, Bytes};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use outflow_core::WallTime;

use super::entry::{CacheEntry, EntrySlot, StorageScope};
use super::key::{CacheKey, Digest, KeySecret};

/// The file of a slot.
pub(super) fn encode(seal: &KeySecret, key: &CacheKey, slot: &EntrySlot) -> Vec<u8> {
    let mut content = Vec::new();
    for entry in slot.entries() {
        write_entry(&mut content, entry);
    }
    let mut file = Vec::with_capacity(content.len() + VERSION.len() + MARK);
    file.extend_from_slice(&VERSION);
    file.extend_from_slice(&seal.mark(key, &content));
    file.append(&mut content);
    file
}

/// The slot of a file; `None` if it is not one that this cache wrote under this key.
pub(super) fn decode(seal: &KeySecret, key: &CacheKey, mut file: Bytes) -> Option<EntrySlot> {
    if take(&mut file, VERSION.len())? != VERSION.as_slice() {
        return None;
    }
    let mark = take(&mut file, MARK)?;
    // The comparison of two hashes takes as long whether they are alike or not.
    let genuine =
        blake3::Hash::from_slice(&mark).ok()? == blake3::Hash::from(seal.mark(key, &file));
    if !genuine {
        return None;
    }
    let mut entries = Vec::new();
    while file.has_remaining() {
        entries.push(Arc::new(read_entry(&mut file)?));
    }
    (!entries.is_empty()).then(|| EntrySlot::new(entries))
}

fn write_entry(out: &mut Vec<u8>, entry: &CacheEntry) {
    out.put_u16(entry.status.as_u16());
    write_span(out, entry.received.as_duration());
    write_span(out, entry.initial_age);
    out.put_slice(&entry.selected);
    write_count(out, entry.vary.len());
    for name in &entry.vary {
        write_bytes(out, name.as_str().as_bytes());
    }
    write_count(out, entry.headers.len());
    for (name, value) in &entry.headers {
        write_bytes(out, name.as_str().as_bytes());
        write_bytes(out, value.as_bytes());
    }
    write_bytes(out, &entry.body);
}

fn read_entry(file: &mut Bytes) -> Option<CacheEntry> {
    let status = StatusCode::from_u16(file.try_get_u16().ok()?).ok()?;
    let received = WallTime::since_epoch(read_span(file)?);
    let initial_age = read_span(file)?;
    let selected = Digest::try_from(take(file, 16)?.as_ref()).ok()?;
    let mut vary = Vec::new();
    for _ in 0..read_count(file)? {
        vary.push(HeaderName::from_bytes(&read_bytes(file)?).ok()?);
    }
    let mut headers = HeaderMap::new();
    for _ in 0..read_count(file)? {
        let name = HeaderName::from_bytes(&read_bytes(file)?).ok()?;
        headers.append(
            name,
            HeaderValue::from_maybe_shared(read_bytes(file)?).ok()?,
        );
    }
    Some(CacheEntry {
        status,
        headers,
        body: read_bytes(file)?,
        received,
        initial_age,
        vary,
        selected,
        reach: StorageScope::Disk,
    })
}

fn write_span(out: &mut Vec<u8>, span: Duration) {
    out.put_u64(span.as_secs());
    out.put_u32(span.subsec_nanos());
}

fn read_span(file: &mut Bytes) -> Option<Duration> {
    let secs = file.try_get_u64().ok()?;
    let nanos = file.try_get_u32().ok()?;
    (nanos < 1_000_000_000).then(|| Duration::new(secs, nanos))
}

/// No count and no length in memory exceeds 64 bits.
fn write_count(out: &mut Vec<u8>, count: usize) {
    out.put_u64(u64::try_from(count).unwrap_or(u64::MAX));
}

fn read_count(file: &mut Bytes) -> Option<usize> {
    usize::try_from(file.try_get_u64().ok()?).ok()
}

fn write_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    write_count(out, bytes.len());
    out.put_slice(bytes);
}

fn read_bytes(file: &mut Bytes) -> Option<Bytes> {
    let length = read_count(file)?;
    take(file, length)
}

/// The next bytes, if there are as many.
fn take(file: &mut Bytes, length: usize) -> Option<Bytes> {
    (length <= file.len()).then(|| file.split_to(length))
}

/// What a file of this format begins with.
const VERSION: [u8; 4] = *b"ofc1";

/// The length of the mark.
const MARK: usize = 32;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const KEY: CacheKey = CacheKey {
        resource: [1; 16],
        caller: [2; 16],
    };

    fn slot(body: Vec<u8>) -> EntrySlot {
        let header = (
            HeaderName::from_static("etag"),
            HeaderValue::from_static("\"1\""),
        );
        EntrySlot::new(vec![Arc::new(CacheEntry {
            status: StatusCode::OK,
            headers: HeaderMap::from_iter([header]),
            body: body.into(),
            received: WallTime::from_unix_secs(7),
            initial_age: Duration::from_millis(1500),
            vary: vec![HeaderName::from_static("accept")],
            selected: [3; 16],
            reach: StorageScope::Disk,
        })])
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(10_000))]

        #[test]
        fn what_is_written_is_read(body: Vec<u8>) {
            let (seal, slot) = (KeySecret::new([9; 32]), slot(body));
            let file = Bytes::from(encode(&seal, &KEY, &slot));
            let read = decode(&seal, &KEY, file).expect("genuine");
            prop_assert_eq!(read.entries(), slot.entries());
        }

        // Any file may lie in the directory, also one that carries a genuine mark of nothing.
        #[test]
        fn no_bytes_make_the_reader_fail(bytes: Vec<u8>) {
            let seal = KeySecret::new([9; 32]);
            let _ = read_entry(&mut Bytes::from(bytes.clone()));
            prop_assert!(decode(&seal, &KEY, bytes.into()).is_none());
        }
    }

    /// A file with a genuine mark, whatever its content.
    fn marked(seal: &KeySecret, content: &[u8]) -> Bytes {
        let mark = seal.mark(&KEY, content);
        [&VERSION, mark.as_slice(), content].concat().into()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(10_000))]

        // Somebody who has the secret, or a later version with a fault, writes what is nearly right:
        // lengths that lie, names that are none. What is read is read again as the same.
        #[test]
        fn content_that_is_nearly_right_is_read_as_it_says_or_not_at_all(
            wounds in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
            body in prop::collection::vec(any::<u8>(), 0..32),
        ) {
            let seal = KeySecret::new([9; 32]);
            let mut content = encode(&seal, &KEY, &slot(body)).split_off(VERSION.len() + MARK);
            for (place, byte) in wounds {
                *place.get_mut(&mut content) = byte;
            }
            if let Some(read) = decode(&seal, &KEY, marked(&seal, &content)) {
                let again = decode(&seal, &KEY, encode(&seal, &KEY, &read).into());
                let again = again.expect("genuine");
                prop_assert_eq!(again.entries(), read.entries());
            }
        }
    }

    // Every bit of a small file, and every length up to its own.
    #[test]
    fn a_flipped_bit_or_a_cut_end_is_no_answer() {
        let seal = KeySecret::new([9; 32]);
        let file = encode(&seal, &KEY, &slot(b"body".to_vec()));
        for bit in 0..file.len() * 8 {
            let mut bent = file.clone();
            bent[bit / 8] ^= 1 << (bit % 8);
            assert!(decode(&seal, &KEY, bent.into()).is_none(), "bit {bit}");
        }
        for end in 0..file.len() {
            let cut = Bytes::copy_from_slice(&file[..end]);
            assert!(decode(&seal, &KEY, cut).is_none(), "cut at {end}");
        }
    }

    #[test]
    fn a_file_under_another_name_or_secret_is_no_answer() {
        let seal = KeySecret::new([9; 32]);
        let file = Bytes::from(encode(&seal, &KEY, &slot(Vec::new())));
        let moved = CacheKey {
            caller: [4; 16],
            ..KEY
        };
        assert!(decode(&seal, &KEY, file.clone()).is_some());
        assert!(decode(&seal, &moved, file.clone()).is_none());
        assert!(decode(&KeySecret::new([8; 32]), &KEY, file).is_none());
    }
}
