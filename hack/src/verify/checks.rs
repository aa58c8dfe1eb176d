//! The checks of the tree that need no build.

use anyhow::Result;

use super::{
    crate_boundaries, dependencies, documented_lists, foreign_text, hygiene, import_cycles, prose, signatures,
};
use crate::workspace::Workspace;

/// Looks for problems that the compiler accepts: tests that never run, forbidden dependencies, import cycles,
/// branches on sentences of other programs, words that hide the actor, names and signatures that do not stand
/// alone, and lists in the documentation that differ from the code.
///
/// # Errors
/// The first kind of problem that was found, after all problems of that kind were listed.
pub(crate) fn verify_hygiene(workspace: &Workspace) -> Result<()> {
    hygiene::check_test_sources(workspace)?;
    crate_boundaries::check_crate_boundaries(workspace)?;
    import_cycles::check_import_cycles(workspace)?;
    foreign_text::check_foreign_text(workspace)?;
    prose::check_prose(workspace)?;
    signatures::check_signatures(workspace)?;
    documented_lists::check_documented_lists(workspace)
}

/// Checks the dependencies against `deny.toml`.
///
/// # Errors
/// A dependency that it does not allow, after all were listed.
pub(crate) fn verify_dependencies(workspace: &Workspace) -> Result<()> {
    dependencies::check_dependency_policy(workspace)
}
