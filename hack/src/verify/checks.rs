//! The checks of the tree that need no build.

use anyhow::{Result, bail};

use super::sources::SourceTree;
use super::{
    book, crate_boundaries, dependencies, documented_lists, foreign_text, hygiene, import_cycles, paragraphs,
    prose, signatures,
};
use crate::workspace::Workspace;

/// A check of the tree.
struct HygieneCheck {
    find: fn(&SourceTree) -> Result<Vec<String>>,
    /// What the findings are. The error has their number before it.
    verdict: &'static str,
}

/// All checks, in their order.
const CHECKS: &[HygieneCheck] = &[
    HygieneCheck {
        find: hygiene::find_unused_sources,
        verdict: "places would be left out of the tests or of an image build",
    },
    HygieneCheck {
        find: crate_boundaries::find_crossed_boundaries,
        verdict: "forbidden dependencies and names; hack/src/verify/crate_boundaries.rs contains the rules",
    },
    HygieneCheck {
        find: import_cycles::find_import_cycles,
        verdict: "crates with import cycles; hack/src/verify/import_cycles.rs describes the check",
    },
    HygieneCheck {
        find: foreign_text::find_foreign_text,
        verdict: "branches on sentences of other programs; hack/src/verify/foreign_text.rs says why",
    },
    HygieneCheck {
        find: prose::find_refused_words,
        verdict: "words hide the actor: name the component, object or user instead",
    },
    HygieneCheck {
        find: paragraphs::find_long_paragraphs,
        verdict: "paragraphs are too long: give each idea a paragraph of at most 80 words",
    },
    HygieneCheck {
        find: signatures::find_unclear_signatures,
        verdict: "names or signatures; hack/src/verify/signatures.rs has the rules",
    },
    HygieneCheck {
        find: documented_lists::find_outdated_lists,
        verdict: "lists in the documentation differ from the code; correct the documentation \
                  (hack/src/verify/documented_lists.rs compares them)",
    },
    HygieneCheck {
        find: book::find_problems_of_book,
        verdict: "pages or messages of the documentation; hack/src/verify/book.rs describes the check",
    },
];

/// Looks for problems that the compiler accepts: tests that never run, forbidden dependencies, import cycles,
/// branches on sentences of other programs, words that hide the actor, long paragraphs, names and signatures
/// that do not stand alone, lists in the documentation that differ from the code, and messages in it that no
/// program writes.
///
/// # Errors
/// The first kind of problem that was found, after all problems of that kind were listed.
pub(crate) fn verify_hygiene(workspace: &Workspace) -> Result<()> {
    let tree = SourceTree::of_workspace(workspace)?;
    CHECKS.iter().try_for_each(|check| refuse_findings(&(check.find)(&tree)?, check.verdict))
}

/// Checks the dependencies against `deny.toml`.
///
/// # Errors
/// A dependency that it does not allow, after all were listed.
pub(crate) fn verify_dependencies(workspace: &Workspace) -> Result<()> {
    let found = dependencies::find_refused_dependencies(workspace)?;
    refuse_findings(&found, "dependencies that deny.toml does not allow")
}

/// Lists the findings.
///
/// # Errors
/// There are findings.
fn refuse_findings(found: &[String], verdict: &str) -> Result<()> {
    for line in found {
        eprintln!("  {line}");
    }
    if found.is_empty() { Ok(()) } else { bail!("{} {verdict}", found.len()) }
}

#[cfg(test)]
mod tests {
    use super::refuse_findings;

    #[test]
    fn findings_are_an_error_with_their_number() {
        refuse_findings(&[], "words").unwrap();
        let error = refuse_findings(&["a".to_owned(), "b".to_owned()], "words").unwrap_err();
        assert_eq!(error.to_string(), "2 words");
    }
}
