//! What the fuzz targets do with their input.
//!
//! The targets themselves are in `fuzz/`, a workspace of its own, because they need a nightly toolchain. Each
//! calls one function of [`FUZZ_TARGETS`]. The tests of this crate call the same functions with changed
//! samples, so that no target becomes outdated.
//!
//! An entry must return for every input. Beyond that, it asserts what holds for every input: for example that
//! a text which was read can be written and read again.

#![expect(clippy::missing_panics_doc, reason = "each entry panics if what it asserts does not hold")]

mod autoscalers;
mod documents;
mod objects;
mod reviews;
pub mod seeds;
mod texts;
mod urls;

pub use autoscalers::{decode_autoscaler, parse_waiting_claims};
pub use documents::{expand_instance_type, merge_template, split_list};
pub use objects::{decode_disk, decode_machine, decode_pool};
pub use reviews::review_pool;
pub use texts::{parse_removal_record, parse_settings};
pub use urls::check_url;

/// One fuzz target.
#[derive(Clone, Copy, Debug)]
pub struct FuzzTarget {
    /// The name of the target.
    pub name: &'static str,
    /// What it does with an input.
    pub run: fn(&[u8]),
}

/// All fuzz targets.
pub const FUZZ_TARGETS: &[FuzzTarget] = &[
    FuzzTarget { name: "pool", run: decode_pool },
    FuzzTarget { name: "machine", run: decode_machine },
    FuzzTarget { name: "disk", run: decode_disk },
    FuzzTarget { name: "list", run: split_list },
    FuzzTarget { name: "removal_record", run: parse_removal_record },
    FuzzTarget { name: "settings", run: parse_settings },
    FuzzTarget { name: "instance_type", run: expand_instance_type },
    FuzzTarget { name: "template", run: merge_template },
    FuzzTarget { name: "review", run: review_pool },
    FuzzTarget { name: "url", run: check_url },
    FuzzTarget { name: "autoscaler", run: decode_autoscaler },
    FuzzTarget { name: "waiting_claims", run: parse_waiting_claims },
];
