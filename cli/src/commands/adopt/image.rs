//! `adopt-image`: an image that was restored from a backup gets the objects with its data that were restored
//! with it.
//!
//! They have the label with the UID of the former image, so the restored one reports `NameConflict` and
//! touches none of them.

use anyhow::{Context as _, Result, anyhow};
use kube::api::Patch;
use vmpool_diskimage::backup::{IMAGE, PARTS, adoption_patches};

use crate::arguments::AdoptImageArguments;
use crate::cluster::UserClusterClient;
use crate::output::print_text;

/// Gives the image the objects with its data.
///
/// # Errors
/// An object belongs to something else, the data is not complete, or a request failed.
pub(crate) async fn adopt_image_objects(
    cluster: &UserClusterClient,
    arguments: &AdoptImageArguments,
) -> Result<()> {
    let name = &arguments.image;
    let image = cluster.get_of_kind(IMAGE, name).await?;
    let image = image.with_context(|| {
        format!("image {name} not found in namespace {}; choose another namespace with -n", cluster.namespace)
    })?;
    let uid = image["metadata"]["uid"].as_str().unwrap_or_default();
    let mut found = [const { None }; PARTS.len()];
    for (kind, part) in PARTS.into_iter().zip(&mut found) {
        *part = cluster.get_of_kind(kind, name).await?;
    }
    let patches = adoption_patches(name, uid, &found).map_err(|why| anyhow!("{why}; nothing was changed"))?;
    for (part, patch) in PARTS.into_iter().zip(patches) {
        let Some(patch) = patch else { continue };
        cluster.patch_of_kind(part, name, &Patch::Merge(patch), arguments.dry_run.mode).await?;
        let done = if arguments.dry_run.is_on() { "would be adopted" } else { "adopted" };
        print_text(&format!("{} {name}: {done}\n", part.kind))?;
    }
    let end = if arguments.dry_run.is_on() {
        "nothing was changed (server dry run)"
    } else {
        "the controller manages its data from now on"
    };
    print_text(&format!("image {name}: {end}\n"))
}
