#![no_main]

use outflow_parser_laws::sidecar;

libfuzzer_sys::fuzz_target!(|input: &[u8]| sidecar::control_headers(input));
