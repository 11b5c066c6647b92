//! The fuzzer's seeds, which every law must keep.

/// Runs a law on each of its committed seeds.
///
/// # Panics
/// If there are too few of them, or one cannot be read.
pub fn seeds_keep(name: &str, law: fn(&[u8])) {
    let folder = format!("{}/../../fuzz/seeds/{name}", env!("CARGO_MANIFEST_DIR"));
    let mut seeds = 0;
    for entry in std::fs::read_dir(folder).expect("the seeds are committed") {
        law(&std::fs::read(entry.expect("readable").path()).expect("readable"));
        seeds += 1;
    }
    assert!(seeds > 5, "{name}");
}
