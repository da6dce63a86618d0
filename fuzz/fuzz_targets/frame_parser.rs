//! libFuzzer's entry to `loligo_fuzz::frame_parser`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| loligo_fuzz::frame_parser(input));
