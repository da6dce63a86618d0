//! libFuzzer's entry to `loligo_fuzz::message_decoder`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| loligo_fuzz::message_decoder(input));
