//! Limits of templates, and of what a status contains. The schemas refuse longer texts, and a status that is
//! refused would never show the end of an import, so that the import would keep its place among the
//! concurrent ones.

use sha2::{Digest, Sha256};

/// Bytes of a message. It can contain those of other objects, whose length users control.
const MESSAGE: usize = 4096;
/// Bytes of a progress.
const PROGRESS: usize = 64;
/// Bytes of the value of the annotation that requests another import.
const TOKEN: usize = 1024;

/// Maximum nesting of lists and maps in the template of a machine, as in a pool. Decoders fail at 128 levels.
pub const NESTING: usize = 100;

/// A message of this text.
pub fn shorten_message(text: &str) -> String {
    shorten_text(text, MESSAGE)
}

/// A progress of this text.
pub fn shorten_progress(text: &str) -> String {
    shorten_text(text, PROGRESS)
}

/// What is stored of the value of an annotation. Different values stay different.
pub fn shorten_retry_token(value: &str) -> String {
    if value.len() <= TOKEN {
        return value.to_owned();
    }
    let digest = Sha256::digest(value.as_bytes());
    digest.iter().fold("sha256:".to_owned(), |text, byte| format!("{text}{byte:02x}"))
}

fn shorten_text(text: &str, limit: usize) -> String {
    const END: &str = " ...";
    if text.len() <= limit {
        return text.to_owned();
    }
    format!("{}{END}", &text[..text.floor_char_boundary(limit - END.len())])
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::ascii("a")]
    #[case::two_bytes("\u{e9}")]
    #[case::four_bytes("\u{1f600}")]
    fn texts_are_shortened_at_characters(#[case] character: &str) {
        assert_eq!(shorten_progress(character), character);
        let long = shorten_progress(&character.repeat(100));
        assert!(long.len() <= PROGRESS && long.ends_with(" ...") && long.starts_with(character), "{long}");
        assert!(shorten_message(&character.repeat(10_000)).len() <= MESSAGE);
    }

    #[test]
    fn a_long_token_is_replaced_by_its_digest() {
        let limit = "x".repeat(TOKEN);
        assert_eq!(shorten_retry_token(&limit), limit);
        let (one, other) =
            (shorten_retry_token(&format!("{limit}1")), shorten_retry_token(&format!("{limit}2")));
        assert!(one.len() < 100 && one != other, "{one}");
    }
}
