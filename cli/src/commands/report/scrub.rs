//! Removes from a text what a report must not contain: user data, tokens, addresses. Pure functions.

use std::net::Ipv6Addr;

/// The longest run of Base64 letters that stays. Names have up to 63 letters, and digests 64.
const LONGEST_RUN: usize = 64;

/// What begins user data of a guest, or a key.
const BEGINNINGS: [&str; 8] = [
    "#cloud-config",
    "#cloud-boothook",
    "#include",
    "#!",
    "## template: jinja",
    "Content-Type:",
    "<?xml",
    "-----BEGIN",
];

/// Parts of the names of fields and flags with secret values, in lower case.
const SECRET_NAMES: [&str; 9] = [
    "token",
    "password",
    "passwd",
    "cabundle",
    "ca.crt",
    "authority-data",
    "certificate-data",
    "key-data",
    "authorization",
];

/// What stands in place of a value with this number of bytes.
pub(super) fn describe_redaction(bytes: usize) -> String {
    format!("redacted ({bytes} bytes)")
}

/// Whether the text of a field or flag with this name is secret.
pub(super) fn is_secret_name(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    SECRET_NAMES.iter().any(|part| name.contains(part))
}

/// Whether a line of the text begins user data or a key.
pub(super) fn contains_user_data(text: &str) -> bool {
    text.lines().any(|line| BEGINNINGS.iter().any(|beginning| line.trim_start().starts_with(beginning)))
}

/// The text without tokens, credentials and addresses. Everything else stays.
pub(super) fn scrub_text(text: &str) -> String {
    let (mut scrubbed, mut previous, mut rest) = (String::with_capacity(text.len()), "", text);
    while !rest.is_empty() {
        let end = rest.find(is_separator).unwrap_or(rest.len());
        let word = &rest[..end];
        scrubbed.push_str(&scrub_word(previous, word));
        if !word.is_empty() {
            previous = word;
        }
        let separators = rest[end..].find(|letter| !is_separator(letter)).unwrap_or(rest.len() - end);
        scrubbed.push_str(&rest[end..end + separators]);
        rest = &rest[end + separators..];
    }
    scrubbed
}

fn is_separator(letter: char) -> bool {
    letter.is_whitespace() || "\"'`,;<>()[]{}|\\".contains(letter)
}

fn scrub_word(previous: &str, word: &str) -> String {
    let announces = |word: &str| {
        word.eq_ignore_ascii_case("bearer")
            || word.eq_ignore_ascii_case("basic")
            || word.ends_with(':') && is_secret_name(word)
    };
    if announces(previous) || is_token(word) || has_credentials(word) {
        return describe_redaction(word.len());
    }
    match word.split_once('=') {
        Some((name, value)) if is_secret_name(name) && !value.is_empty() => {
            format!("{name}={}", describe_redaction(value.len()))
        }
        Some(_) | None => scrub_addresses(word),
    }
}

/// Whether a word is a JSON Web Token, or has a part that is as long as no name.
fn is_token(word: &str) -> bool {
    let is_letter = |letter: char| letter.is_ascii_alphanumeric() || "+/=_-".contains(letter);
    let is_web_token = word.contains("eyJ") && word.matches('.').count() >= 2;
    is_web_token || word.split(|letter| !is_letter(letter)).any(|run| run.len() > LONGEST_RUN)
}

/// Whether a word is a URL with a user or with parameters, which can sign it.
fn has_credentials(word: &str) -> bool {
    word.split_once("://").is_some_and(|(_, rest)| rest.contains(['@', '?']))
}

fn scrub_addresses(word: &str) -> String {
    let of_six = |letter: char| letter.is_ascii_hexdigit() || letter == ':' || letter == '.';
    let of_four = |letter: char| letter.is_ascii_digit() || letter == '.';
    replace_runs(&replace_runs(word, of_six, is_address_of_six), of_four, is_address_of_four)
}

/// Letters of which all or none are one address, and what is beside them.
#[derive(Clone, Copy)]
struct LetterRun<'t> {
    letters: &'t str,
    follows_letter: bool,
    precedes_letter: bool,
}

/// Whether letters are an address, and not two colons between names, such as in a path of code.
fn is_address_of_six(run: LetterRun<'_>) -> bool {
    let LetterRun { letters, follows_letter, precedes_letter } = run;
    let joins_names = follows_letter && letters.starts_with(':') || precedes_letter && letters.ends_with(':');
    !joins_names && letters.parse::<Ipv6Addr>().is_ok()
}

/// Whether letters are at least four numbers of one byte each.
fn is_address_of_four(run: LetterRun<'_>) -> bool {
    let groups: Vec<&str> = run.letters.split('.').collect();
    groups.len() >= 4 && groups.iter().all(|group| group.parse::<u8>().is_ok())
}

/// Replaces the longest runs of such letters that are secret. Punctuation at the ends of a run is no part of
/// it.
fn replace_runs(
    text: &str,
    is_part: impl Fn(char) -> bool,
    is_secret: impl Fn(LetterRun<'_>) -> bool,
) -> String {
    let (mut replaced, mut rest) = (String::with_capacity(text.len()), text);
    while !rest.is_empty() {
        let start = rest.find(&is_part).unwrap_or(rest.len());
        replaced.push_str(&rest[..start]);
        let follows_letter = rest[..start].ends_with(char::is_alphanumeric);
        rest = &rest[start..];
        let end = rest.find(|letter| !is_part(letter)).unwrap_or(rest.len());
        let precedes_letter = rest[end..].starts_with(char::is_alphanumeric);
        let run = LetterRun { letters: &rest[..end], follows_letter, precedes_letter };
        replaced.push_str(&replace_run(run, &is_secret));
        rest = &rest[end..];
    }
    replaced
}

fn replace_run(run: LetterRun<'_>, is_secret: impl Fn(LetterRun<'_>) -> bool) -> String {
    let dotless = run.letters.trim_matches('.');
    let cores = [run.letters, dotless, dotless.trim_end_matches(':')];
    match cores.iter().find(|core| is_secret(LetterRun { letters: core, ..run })) {
        Some(core) => run.letters.replacen(core, &describe_redaction(core.len()), 1),
        None => run.letters.to_owned(),
    }
}

#[cfg(test)]
mod tests;
