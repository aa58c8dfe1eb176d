//! See `vmpool_fuzz_entries::parse_waiting_claims`.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| vmpool_fuzz_entries::parse_waiting_claims(input));
