//! See `vmpool_fuzz_entries::review_pool`.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| vmpool_fuzz_entries::review_pool(input));
