#![no_main]

use outflow_parser_laws::response;

libfuzzer_sys::fuzz_target!(|input: &[u8]| response::response(input));
