//! The CustomResourceDefinitions that the pools of a platform need.

use vmpool_kit::definitions::{Definitions, definition_name};
use vmpool_platforms::{
    AttachmentOf, CopySource, CopySourceVisitor, DiskOf, DiskSourceKind, DiskSourceVisitor, DiskSources,
    Disks, InstanceOf, Instances, MachineStorage, OtherController, Platform, TemplateCopies, VolumeOf,
};

/// The names of all definitions without which the controller cannot reconcile the pools of a platform.
fn required_definitions<P: Platform>() -> Vec<String> {
    let mut names = vec![definition_name::<P::Pool>(), definition_name::<P::Machine>()];
    if P::Disks::EXIST {
        names.push(definition_name::<DiskOf<P>>());
    }
    if P::Disks::HAS_ATTACHMENTS {
        names.push(definition_name::<AttachmentOf<P>>());
    }
    if P::Instances::EXIST {
        names.push(definition_name::<InstanceOf<P>>());
    }
    names
}

/// The definitions that the controller needs to know of a platform.
pub(crate) fn definitions_of_platform<P: Platform>() -> Vec<String> {
    let mut names = required_definitions::<P>();
    if P::OtherController::EXISTS {
        names.push(definition_name::<<P::OtherController as OtherController>::Installation>());
    }
    names.extend(definitions_of_sources::<P>());
    names.extend(definitions_of_disk_sources::<P>());
    names.extend(P::Storage::PRESERVED_LABEL.map(|_| definition_name::<VolumeOf<P>>()));
    names
}

/// The names of the definitions of the objects that templates refer to.
fn definitions_of_sources<P: Platform>() -> Vec<String> {
    struct Names(Vec<String>);
    impl CopySourceVisitor for Names {
        fn visit<K: CopySource>(&mut self) {
            self.0.push(definition_name::<K>());
        }
    }
    let mut names = Names(Vec::new());
    P::TemplateCopies::each_source(&mut names);
    names.0
}

/// The names of the definitions of the objects that disk templates name.
fn definitions_of_disk_sources<P: Platform>() -> Vec<String> {
    struct Names(Vec<String>);
    impl DiskSourceVisitor for Names {
        fn visit<K: DiskSourceKind>(&mut self) {
            if !K::IS_BUILT_IN {
                self.0.push(definition_name::<K>());
            }
        }
    }
    let mut names = Names(Vec::new());
    P::DiskSources::each_kind(&mut names);
    names.0
}

/// The name of a definition that the cluster does not have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct MissingDefinition(String);

/// The UIDs of the definitions that a platform requires.
///
/// # Errors
/// The cluster lacks one of them.
pub(crate) fn served_definitions<P: Platform>(known: &Definitions) -> Result<Vec<String>, MissingDefinition> {
    let uid = |name: String| known.uid(&name).cloned().ok_or(MissingDefinition(name));
    required_definitions::<P>().into_iter().map(uid).collect()
}
