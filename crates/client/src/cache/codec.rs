//! File format of a slot.
//!
//! Hand-written rather than a format library: the data is lengths and bytes, the body must not be
//! copied, and the reader must survive any file. A MAC over the key and the content is checked
//! first: a flipped bit, a truncated file, another cache's file or a renamed one is no response.
//! Other versions start with another tag.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, BufMut, Bytes};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use outflow_core::WallTime;

use super::entry::{CacheEntry, EntrySlot, StorageScope};
use super::key::{CacheKey, Digest, KeySecret};

/// Encodes a slot as a file.
pub(super) fn encode(secret: &KeySecret, key: &CacheKey, slot: &EntrySlot) -> Vec<u8> {
    let mut content = Vec::new();
    for entry in slot.entries() {
        write_entry(&mut content, entry);
    }
    let mut file = Vec::with_capacity(content.len() + VERSION.len() + MAC_LENGTH);
    file.extend_from_slice(&VERSION);
    file.extend_from_slice(&secret.mac(key, &content));
    file.append(&mut content);
    file
}

/// Decodes a file; `None` unless this cache wrote it under this key.
pub(super) fn decode(secret: &KeySecret, key: &CacheKey, mut file: Bytes) -> Option<EntrySlot> {
    if take(&mut file, VERSION.len())? != VERSION.as_slice() {
        return None;
    }
    let mac = take(&mut file, MAC_LENGTH)?;
    // Comparing two `Hash` values takes constant time.
    let is_genuine = blake3::Hash::from_slice(&mac).ok()? == blake3::Hash::from(secret.mac(key, &file));
    if !is_genuine {
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
    write_duration(out, entry.received.as_duration());
    write_duration(out, entry.initial_age);
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
    let received = WallTime::since_epoch(read_duration(file)?);
    let initial_age = read_duration(file)?;
    let selected = Digest::try_from(take(file, 16)?.as_ref()).ok()?;
    let mut vary = Vec::new();
    for _ in 0..read_count(file)? {
        vary.push(HeaderName::from_bytes(&read_bytes(file)?).ok()?);
    }
    let mut headers = HeaderMap::new();
    for _ in 0..read_count(file)? {
        let name = HeaderName::from_bytes(&read_bytes(file)?).ok()?;
        headers.append(name, HeaderValue::from_maybe_shared(read_bytes(file)?).ok()?);
    }
    Some(CacheEntry {
        status,
        headers,
        body: read_bytes(file)?,
        received,
        initial_age,
        vary,
        selected,
        scope: StorageScope::Disk,
    })
}

fn write_duration(out: &mut Vec<u8>, duration: Duration) {
    out.put_u64(duration.as_secs());
    out.put_u32(duration.subsec_nanos());
}

fn read_duration(file: &mut Bytes) -> Option<Duration> {
    let secs = file.try_get_u64().ok()?;
    let nanos = file.try_get_u32().ok()?;
    (nanos < 1_000_000_000).then(|| Duration::new(secs, nanos))
}

/// No count or length in memory exceeds 64 bits.
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

/// Takes the next bytes, if there are enough.
fn take(file: &mut Bytes, length: usize) -> Option<Bytes> {
    (length <= file.len()).then(|| file.split_to(length))
}

/// First bytes of a file of this format.
const VERSION: [u8; 4] = *b"ofc1";

/// Length of the MAC.
const MAC_LENGTH: usize = 32;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const KEY: CacheKey = CacheKey {
        resource: [1; 16],
        caller: [2; 16],
    };

    fn slot(body: Vec<u8>) -> EntrySlot {
        let header = (HeaderName::from_static("etag"), HeaderValue::from_static("\"1\""));
        EntrySlot::new(vec![Arc::new(CacheEntry {
            status: StatusCode::OK,
            headers: HeaderMap::from_iter([header]),
            body: body.into(),
            received: WallTime::from_unix_secs(7),
            initial_age: Duration::from_millis(1500),
            vary: vec![HeaderName::from_static("accept")],
            selected: [3; 16],
            scope: StorageScope::Disk,
        })])
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(10_000))]

        #[test]
        fn decode_inverts_encode(body: Vec<u8>) {
            let (secret, slot) = (KeySecret::new([9; 32]), slot(body));
            let file = Bytes::from(encode(&secret, &KEY, &slot));
            let read = decode(&secret, &KEY, file).expect("genuine");
            prop_assert_eq!(read.entries(), slot.entries());
        }

        // Any file may be in the directory, also one with a valid MAC and no content.
        #[test]
        fn the_reader_survives_any_bytes(bytes: Vec<u8>) {
            let secret = KeySecret::new([9; 32]);
            let _ = read_entry(&mut Bytes::from(bytes.clone()));
            prop_assert!(decode(&secret, &KEY, bytes.into()).is_none());
        }
    }

    /// Builds a file with a valid MAC and any content.
    fn with_mac(secret: &KeySecret, content: &[u8]) -> Bytes {
        let mac = secret.mac(&KEY, content);
        [&VERSION, mac.as_slice(), content].concat().into()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(10_000))]

        // A holder of the secret or a faulty later version writes nearly valid content: wrong
        // lengths, invalid names. Decoded content encodes to the same content.
        #[test]
        fn nearly_valid_content_is_read_consistently_or_not_at_all(
            corruptions in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
            body in prop::collection::vec(any::<u8>(), 0..32),
        ) {
            let secret = KeySecret::new([9; 32]);
            let mut content = encode(&secret, &KEY, &slot(body)).split_off(VERSION.len() + MAC_LENGTH);
            for (index, byte) in corruptions {
                *index.get_mut(&mut content) = byte;
            }
            if let Some(read) = decode(&secret, &KEY, with_mac(&secret, &content)) {
                let again = decode(&secret, &KEY, encode(&secret, &KEY, &read).into());
                let again = again.expect("genuine");
                prop_assert_eq!(again.entries(), read.entries());
            }
        }
    }

    // Every bit of a small file, and every shorter length.
    #[test]
    fn a_flipped_bit_or_a_truncated_file_is_rejected() {
        let secret = KeySecret::new([9; 32]);
        let file = encode(&secret, &KEY, &slot(b"body".to_vec()));
        for bit in 0..file.len() * 8 {
            let mut corrupt = file.clone();
            corrupt[bit / 8] ^= 1 << (bit % 8);
            assert!(decode(&secret, &KEY, corrupt.into()).is_none(), "bit {bit}");
        }
        for end in 0..file.len() {
            let cut = Bytes::copy_from_slice(&file[..end]);
            assert!(decode(&secret, &KEY, cut).is_none(), "cut at {end}");
        }
    }

    #[test]
    fn a_file_under_another_name_or_secret_is_rejected() {
        let secret = KeySecret::new([9; 32]);
        let file = Bytes::from(encode(&secret, &KEY, &slot(Vec::new())));
        let moved = CacheKey { caller: [4; 16], ..KEY };
        assert!(decode(&secret, &KEY, file.clone()).is_some());
        assert!(decode(&secret, &moved, file.clone()).is_none());
        assert!(decode(&KeySecret::new([8; 32]), &KEY, file).is_none());
    }
}
