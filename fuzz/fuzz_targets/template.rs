//! See `vmpool_fuzz_entries::merge_template`.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| vmpool_fuzz_entries::merge_template(input));
