//! What an object of `crd.pelotech.ot`, or a manifest of the proposal of wrappers, becomes.

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::{Map, Value, json};
use vmpool_api::diskimage::values::SourceType;
use vmpool_api::diskimage::{API_VERSION, WRAPPER_KIND};
use vmpool_diskimage::source::check_source_url;

use crate::cluster::name_of;

/// The URL of images without one.
const NO_URL: &str = "not-provided";
/// The label with which the other operator finds the objects of an image.
const OWNER_LABEL: &str = "owner";
/// Fields of an image that are the same in both groups.
const IMAGE_FIELDS: [&str; 8] =
    ["sourceType", "url", "secretRef", "certConfigMap", "diskSize", "storageClass", "snapshotClass", "name"];
/// Fields of the proposal that a wrapper has, too.
const WRAPPER_FIELDS: [&str; 4] = ["vmDiskImageRef", "resources", "users", "interfaces"];
/// Fields of the proposal that belong to a catalogue. A wrapper has labels for them.
const CATALOGUE_FIELDS: [&str; 5] = ["baseVm", "baseVmVersion", "ignoreOnDeploy", "name", "version"];

/// New images copy the data of the former ones in the cluster, under other names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CopiedData {
    /// What is appended to the names.
    pub(super) suffix: String,
}

/// A manifest, and what a user must check.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ConvertedObject {
    /// The manifest.
    pub(super) manifest: Value,
    /// What a user must check.
    pub(super) notes: Vec<String>,
}

/// Converts an object.
///
/// # Errors
/// It is of another kind, or its source cannot be imported.
pub(super) fn convert_object(object: &Value, copied: Option<&CopiedData>) -> Result<ConvertedObject> {
    let version = object["apiVersion"].as_str().unwrap_or_default();
    let group = version.split('/').next().unwrap_or_default();
    match (group, object["kind"].as_str().unwrap_or_default()) {
        ("crd.pelotech.ot", "VMDiskImage") => convert_image(object, copied),
        ("pelotech.ot" | "crd.pelotech.ot", "VirtualMachine") => convert_wrapper(object, copied),
        (_, kind) => bail!("{version} {kind} is neither an image nor a machine of crd.pelotech.ot"),
    }
}

fn convert_image(object: &Value, copied: Option<&CopiedData>) -> Result<ConvertedObject> {
    let mut notes = Vec::new();
    let mut spec = convert_source(&object["spec"], &mut notes)?;
    let mut metadata = copy_metadata(object);
    if let Some(CopiedData { suffix }) = copied {
        let name = name_of(object);
        for field in ["url", "secretRef", "certConfigMap"] {
            spec.remove(field);
        }
        spec.insert("sourceType".to_owned(), json!("snapshot"));
        spec.insert("sourceName".to_owned(), json!(name));
        metadata.insert("name".to_owned(), json!(format!("{name}{suffix}")));
        notes.push(
            "it copies the VolumeSnapshot of the former image, which must stay until the copy is ready"
                .to_owned(),
        );
    }
    let manifest =
        json!({ "apiVersion": API_VERSION, "kind": "VMDiskImage", "metadata": metadata, "spec": spec });
    Ok(ConvertedObject { manifest, notes })
}

/// The fields of an image. The other operator needs a Secret and has a URL also where nothing is downloaded.
fn convert_source(former: &Value, notes: &mut Vec<String>) -> Result<Map<String, Value>> {
    let mut spec = Map::new();
    for field in IMAGE_FIELDS {
        let value = former.get(field).filter(|value| !value.is_null() && **value != json!(""));
        spec.extend(value.map(|value| (field.to_owned(), value.clone())));
    }
    let source = former["sourceType"].as_str().unwrap_or_default();
    let source: SourceType = source.parse().context("reading spec.sourceType")?;
    ensure!(spec.contains_key("diskSize"), "spec.diskSize is missing");
    if !source.has_url() {
        for field in ["url", "secretRef", "certConfigMap"] {
            spec.remove(field);
        }
        return Ok(spec);
    }
    let url = spec.get("url").and_then(Value::as_str).filter(|url| *url != NO_URL);
    let url = url.with_context(|| format!("spec.url is missing, and the sourceType {source} needs one"))?;
    check_source_url(source, url, &[])?;
    if let Some(secret) = spec.get("secretRef").and_then(Value::as_str) {
        notes.push(format!(
            "the former operator requires a Secret; if the source is public, remove secretRef: {secret}"
        ));
    }
    Ok(spec)
}

/// Name, namespace and labels. Finalizers, owners and annotations are those of the other operator.
fn copy_metadata(object: &Value) -> Map<String, Value> {
    let stored = &object["metadata"];
    let mut metadata = Map::new();
    for field in ["name", "namespace"] {
        let value = stored.get(field).filter(|value| value.is_string());
        metadata.extend(value.map(|value| (field.to_owned(), value.clone())));
    }
    let labels = stored["labels"].as_object().into_iter().flatten();
    let labels: Map<String, Value> = labels
        .filter(|(name, _)| *name != OWNER_LABEL)
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    if !labels.is_empty() {
        metadata.insert("labels".to_owned(), labels.into());
    }
    metadata
}

fn convert_wrapper(object: &Value, copied: Option<&CopiedData>) -> Result<ConvertedObject> {
    let former = &object["spec"];
    let mut notes = Vec::new();
    let mut spec = Map::new();
    for field in WRAPPER_FIELDS {
        spec.extend(former.get(field).map(|value| (field.to_owned(), value.clone())));
    }
    ensure!(former["vmDiskImageRef"]["name"].is_string(), "spec.vmDiskImageRef.name is missing");
    if let Some(CopiedData { suffix }) = copied {
        let name = format!("{}{suffix}", former["vmDiskImageRef"]["name"].as_str().unwrap_or_default());
        spec.insert("vmDiskImageRef".to_owned(), former["vmDiskImageRef"].clone());
        spec["vmDiskImageRef"]["name"] = json!(name);
    } else if former["vmDiskImageTemplate"].is_object() {
        let source = convert_source(&former["vmDiskImageTemplate"], &mut notes);
        let source = source.context("converting spec.vmDiskImageTemplate")?;
        spec.insert("vmDiskImageTemplate".to_owned(), source.into());
    }
    let left_out: Vec<&str> =
        CATALOGUE_FIELDS.into_iter().filter(|field| !former[*field].is_null()).collect();
    if !left_out.is_empty() {
        notes.push(format!("{} are left out; use labels for them", left_out.join(", ")));
    }
    let mut users = former["users"].as_array().into_iter().flatten();
    if users.any(|user| !user["plain_text_passwd"].is_null()) {
        notes.push(
            "the manifest has passwords in clear text; use hashed_passwd or ssh_authorized_keys".to_owned(),
        );
    }
    let instance = json!({ "domain": { "devices": {} } });
    spec.insert(
        "virtualMachineTemplate".to_owned(),
        json!({ "spec": { "runStrategy": "Always", "template": { "spec": instance } } }),
    );
    let metadata = copy_metadata(object);
    let manifest =
        json!({ "apiVersion": API_VERSION, "kind": WRAPPER_KIND, "metadata": metadata, "spec": spec });
    Ok(ConvertedObject { manifest, notes })
}
