#![no_main]

use outflow_parser_laws::program;

libfuzzer_sys::fuzz_target!(|input: &[u8]| program::replay(input));
