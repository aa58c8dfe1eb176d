//! Limits on the size of objects, so that no object of one tenant uses up the memory that all pools share.
//!
//! Each limit is ten times larger than any real use. A cluster whose definitions of pools, machines and disks
//! have no limits can store larger objects. The controller treats only such an object as invalid.

use vmpool_api::json_brackets;

/// Maximum size of the `spec` of a pool, in bytes of JSON. The parsed tree of such a text can need fifty
/// times as much memory.
pub const POOL_SPEC: usize = 128 * 1024;

/// Maximum size of the data of a stored revision, in bytes of JSON: the spec of a pool, its template with
/// instance type and preference written out, or copies of both.
pub const REVISION: usize = 3 * POOL_SPEC;

/// Maximum nesting of lists and maps in an object of a pool. Decoders fail at 128 levels, and then read
/// nothing of the object.
pub const NESTING: usize = 100;

/// Maximum size of the `status` of a pool that the controller reads, in bytes of JSON. The controller
/// replaces a larger status.
pub const POOL_STATUS: usize = 128 * 1024;

/// Maximum size of a machine that the controller patches, in bytes of JSON: all fields that a pool can set,
/// and four times as much for other clients and the platform.
pub const MACHINE: usize = 512 * 1024;

/// Maximum number of entries of a list in a machine, a disk or a pool that the controller reads. The platform
/// attaches at most 16 devices.
pub const ENTRIES: usize = 256;

/// Maximum number of validation errors that the controller keeps for one pool.
pub const VALIDATION_ERRORS: usize = 16;

/// Maximum length of the message of a condition or an event, in bytes. The API server accepts no longer note
/// of an event.
pub const MESSAGE: usize = 1000;

/// Maximum length of an object name, in bytes.
pub const NAME: usize = 253;

/// `text`, truncated to one byte more than the maximum length of a name, so that a truncated text never
/// equals an existing name.
pub fn clip_name(text: &str) -> &str {
    &text[..text.ceil_char_boundary(NAME + 1)]
}

/// `text`, truncated at a character boundary to [`MESSAGE`] bytes.
pub fn shorten_message(mut text: String) -> String {
    if text.len() > MESSAGE {
        text.truncate(text.floor_char_boundary(MESSAGE - 4));
        text.push_str(" ...");
    }
    text
}

/// The validation error of a pool whose `spec` has `size` bytes and `depth` levels of nesting, if it exceeds
/// a limit.
pub fn spec_error(size: usize, depth: usize) -> Option<String> {
    if size > POOL_SPEC {
        return Some(format!(
            "spec takes {size} bytes of JSON, more than the limit of {POOL_SPEC}; shorten its templates"
        ));
    }
    (depth > NESTING).then(|| {
        format!("spec is nested {depth} levels deep, more than the limit of {NESTING}; remove the innermost lists and maps")
    })
}

/// The nesting depth of lists and maps in a JSON text.
pub fn nesting_depth(json: &str) -> usize {
    json_brackets(json.as_bytes()).map(|bracket| bracket.depth).max().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clip_keeps_names_and_cuts_longer_texts_to_no_name() {
        let name = "n".repeat(NAME);
        assert_eq!(clip_name(&name), name);
        assert_eq!(clip_name(&"n".repeat(1 << 20)).len(), NAME + 1);
        let wide = "é".repeat(1 << 10);
        assert!((NAME + 1..NAME + 4).contains(&clip_name(&wide).len()));
    }

    #[test]
    fn a_spec_is_too_long_only_above_the_limit() {
        assert_eq!(spec_error(POOL_SPEC, NESTING), None);
        let error = spec_error(POOL_SPEC + 1, 1).unwrap();
        assert!(error.contains("131073") && error.contains("131072"), "{error}");
        let error = spec_error(1, NESTING + 1).unwrap();
        assert!(error.contains("101") && error.contains("100"), "{error}");
    }

    #[test]
    fn nesting_counts_open_lists_and_maps_outside_of_texts() {
        for (text, depth) in
            [("0", 0), ("[]", 1), (r#"{"a":[{}],"b":[]}"#, 3), (r#"["[[[[","\"[[","\\",[]]"#, 2), ("]]]", 0)]
        {
            assert_eq!(nesting_depth(text), depth, "{text}");
        }
    }
}
