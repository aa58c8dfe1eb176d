//! Suggestions for misspelled names.

/// The candidate most similar to `name`, regardless of case. At most a third of the name may differ.
pub(crate) fn nearest_name(name: &str, candidates: &[&'static str]) -> Option<&'static str> {
    let wanted = name.to_lowercase();
    let (distance, candidate) = candidates
        .iter()
        .map(|candidate| (edit_distance(&wanted, &candidate.to_lowercase()), *candidate))
        .min_by_key(|(distance, _)| *distance)?;
    (distance <= candidate.len() / 3).then_some(candidate)
}

/// The Levenshtein distance: the number of characters to add, remove or replace.
fn edit_distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    // Distances from the processed part of `from` to each prefix of `to`.
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (read, letter) in from.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = read + 1;
        for (column, other) in to.iter().enumerate() {
            let replaced = diagonal + usize::from(letter != *other);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(row[column] + 1).min(diagonal + 1);
        }
    }
    row[to.len()]
}
