#![no_main]

use outflow_parser_laws::client;

libfuzzer_sys::fuzz_target!(|input: &[u8]| client::redirect(input));
