#![no_main]

use outflow_parser_laws::secrets;

libfuzzer_sys::fuzz_target!(|input: &[u8]| secrets::config_secrets(input));
