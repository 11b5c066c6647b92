#![no_main]

#[path = "../program_laws.rs"]
#[allow(dead_code, reason = "each target checks one of the laws")]
mod laws;

libfuzzer_sys::fuzz_target!(|input: &[u8]| laws::admin(input));
