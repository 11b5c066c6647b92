#![no_main]

use outflow_parser_laws::values;

libfuzzer_sys::fuzz_target!(|input: &[u8]| values::retry_after(input));
