//! See `vmpool_fuzz_entries::parse_removal_record`.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| vmpool_fuzz_entries::parse_removal_record(input));
