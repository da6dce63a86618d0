//! libFuzzer's entry to `loligo_fuzz::handshake`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| loligo_fuzz::handshake(input));
