//! `convert-images`: manifests of disk images and wrappers from the objects of `crd.pelotech.ot`, and from
//! manifests of the proposal of wrappers.
//!
//! It writes nothing. The objects of both groups can be in one cluster, but an image and an object of the
//! other group with the same name would need the same DataVolume.

mod rules;

use std::path::Path;

use anyhow::{Context as _, Result, bail, ensure};
use serde::Deserialize as _;
use serde_json::Value;
use vmpool_diskimage::backup::ObjectKind;

use self::rules::{ConvertedObject, CopiedData, convert_object};
use crate::arguments::ConvertImagesArguments;
use crate::cluster::{UserClusterClient, name_of};
use crate::output::{print_note, print_yaml_documents};

/// The images of the other operator.
const FORMER_IMAGE: ObjectKind =
    ObjectKind { api_version: "crd.pelotech.ot/v1alpha1", kind: "VMDiskImage", plural: "vmdiskimages" };

/// Prints the manifests.
///
/// # Errors
/// An object cannot be converted, or does not exist, or a request failed.
pub(crate) async fn print_converted_images(
    cluster: &UserClusterClient,
    arguments: &ConvertImagesArguments,
) -> Result<()> {
    let found = match &arguments.filename {
        Some(file) => read_documents(file)?,
        None => cluster.list_of_kind(FORMER_IMAGE).await?,
    };
    let selected = select_objects(found, &arguments.images)?;
    let copied = arguments.suffix.as_ref().map(|suffix| CopiedData { suffix: suffix.clone() });
    let mut documents = Vec::new();
    for object in &selected {
        let name = name_of(object);
        let converted =
            convert_object(object, copied.as_ref()).with_context(|| format!("converting {name}"))?;
        let ConvertedObject { manifest, notes } = converted;
        for note in notes {
            print_note(&format!("{name}: {note}\n"));
        }
        documents.push(manifest);
    }
    print_yaml_documents(&documents)
}

/// The objects with these names, or all.
fn select_objects(found: Vec<Value>, names: &[String]) -> Result<Vec<Value>> {
    for name in names {
        ensure!(
            found.iter().any(|object| name_of(object) == name),
            "there is no object with the name {name}"
        );
    }
    let is_selected = |object: &Value| names.is_empty() || names.iter().any(|name| name == name_of(object));
    let selected: Vec<Value> = found.into_iter().filter(is_selected).collect();
    if selected.is_empty() {
        bail!(
            "there is no VMDiskImage of crd.pelotech.ot; choose another namespace with -n, or a file with -f"
        );
    }
    Ok(selected)
}

/// The objects in a file, also those of a list.
fn read_documents(file: &Path) -> Result<Vec<Value>> {
    let text = std::fs::read_to_string(file).with_context(|| format!("reading {}", file.display()))?;
    parse_documents(&text).with_context(|| format!("reading {}", file.display()))
}

fn parse_documents(text: &str) -> Result<Vec<Value>> {
    let mut objects = Vec::new();
    for document in serde_yaml_ng::Deserializer::from_str(text) {
        let object = Value::deserialize(document).context("the file is no YAML of objects")?;
        match object["items"].as_array() {
            Some(items) => objects.extend(items.iter().cloned()),
            None if object.is_null() => {}
            None => objects.push(object),
        }
    }
    Ok(objects)
}

#[cfg(test)]
mod tests;
