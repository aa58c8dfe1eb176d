//! See `vmpool_fuzz_entries::decode_autoscaler`.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| vmpool_fuzz_entries::decode_autoscaler(input));
