//! See `vmpool_fuzz_entries::expand_instance_type`.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| vmpool_fuzz_entries::expand_instance_type(input));
