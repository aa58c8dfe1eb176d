//! Parts of messages.

/// `count` machines.
pub(crate) fn machine_count_text(count: usize) -> String {
    if count == 1 { "1 machine".to_owned() } else { format!("{count} machines") }
}

/// The verb for `count` objects.
pub(super) fn verb_for_count(count: usize) -> &'static str {
    if count == 1 { "is" } else { "are" }
}

/// Maximum number of names in one message.
const NAMED: usize = 3;

/// Some of these names in ascending order, and the number of the others.
pub(super) fn list_some_names(mut names: Vec<&str>) -> String {
    names.sort_unstable();
    match (names.len().checked_sub(NAMED), &names[..]) {
        (None | Some(0), [first]) => (*first).to_owned(),
        (None | Some(0), [all @ .., last]) => format!("{} and {last}", all.join(", ")),
        (Some(more), [..]) if more > 0 => format!("{} and {more} more", names[..NAMED].join(", ")),
        (_, _) => String::new(),
    }
}

/// These parts as one message.
pub(super) fn join_message_parts(parts: impl IntoIterator<Item = String>) -> String {
    parts.into_iter().collect::<Vec<_>>().join("; ")
}
