//! Decodes what the API server sends.
//!
//! The decoder fails at 128 levels of nesting, the API server at 10,000. Templates can contain any fields, so
//! users can store objects that the decoder refuses, and one of these would end each list and each watch of
//! its kind. Such an object is read without its innermost values. A controller that uses no template of
//! [`MAX_LEVELS`] levels cannot confuse it with a complete one.

use std::borrow::Cow;

use serde::de::DeserializeOwned;
use vmpool_api::{JsonBracket, json_brackets};

/// The number of levels that are kept. The event of a watch adds a level to its object.
pub const MAX_LEVELS: usize = 120;

const _: () = assert!(MAX_LEVELS < 128);

/// Decodes JSON. Lists and maps below the maximum number of levels are read as `null`.
///
/// # Errors
/// If the text is not JSON, or not that of a `T`.
pub fn decode_json<T: DeserializeOwned>(text: &[u8]) -> serde_json::Result<T> {
    serde_json::from_slice(text).or_else(|error| match cut_deep_values(text) {
        Cow::Borrowed(_) => Err(error),
        Cow::Owned(cut) => serde_json::from_slice(&cut),
    })
}

/// Replaces lists and maps below the maximum number of levels by `null`.
fn cut_deep_values(text: &[u8]) -> Cow<'_, [u8]> {
    let mut kept = Vec::new();
    // The end of what was copied or left out.
    let mut done = 0;
    for JsonBracket { at, opens, .. } in json_brackets(text).filter(|bracket| bracket.depth == MAX_LEVELS + 1)
    {
        if opens {
            kept.extend_from_slice(&text[done..at]);
            kept.extend_from_slice(b"null");
        } else {
            done = at + 1;
        }
    }
    if done == 0 {
        return Cow::Borrowed(text);
    }
    kept.extend_from_slice(&text[done..]);
    Cow::Owned(kept)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    fn nesting_depth(text: &str) -> usize {
        json_brackets(text.as_bytes()).map(|bracket| bracket.depth).max().unwrap_or_default()
    }

    /// An object with a field of this many levels, which contains texts with brackets.
    fn nested(levels: usize) -> String {
        let (open, close) = (r#"{"a":[{"b":"]}\"[\\"},"#.repeat(levels / 2), "]}".repeat(levels / 2));
        format!(r#"{{"metadata":{{"name":"a"}},"spec":{open}1{close},"status":{{"phase":"Ready"}}}}"#)
    }

    #[rstest]
    #[case::shallow(10, 12)]
    #[case::the_most_that_the_decoder_reads(124, 126)]
    #[case::one_more(128, MAX_LEVELS)]
    #[case::the_most_that_the_api_server_accepts(10_000, MAX_LEVELS)]
    fn an_object_is_read_at_any_depth(#[case] levels: usize, #[case] kept: usize) {
        let object: Value = decode_json(nested(levels).as_bytes()).unwrap();
        assert_eq!(
            (&object["metadata"], &object["status"]),
            (&json!({ "name": "a" }), &json!({ "phase": "Ready" }))
        );
        assert_eq!(nesting_depth(&object.to_string()), kept);
    }

    #[test]
    fn siblings_of_what_is_left_out_are_kept() {
        let (open, close) = ("[".repeat(MAX_LEVELS), "]".repeat(MAX_LEVELS));
        let text = format!(r#"{open}1,[[2],{{"a":[3]}}],"[",{{"b":{{}}}},4{close}"#);
        let expected = format!(r#"{open}1,null,"[",null,4{close}"#);
        assert_eq!(String::from_utf8_lossy(&cut_deep_values(text.as_bytes())), expected);
    }

    #[test]
    fn what_is_not_json_is_an_error_of_the_complete_text() {
        let text = format!("{}x", "[".repeat(MAX_LEVELS + 10));
        assert!(decode_json::<Value>(text.as_bytes()).is_err());
        let error = decode_json::<Value>(b"{\"a\":").unwrap_err();
        assert!(error.is_eof(), "{error}");
        assert!(decode_json::<String>(nested(200).as_bytes()).is_err());
    }
}
