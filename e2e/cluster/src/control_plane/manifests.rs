//! Reads and applies YAML manifests.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use kube::Client;
use kube::api::{Api, DynamicObject, ListParams, Patch, PatchParams};
use kube::core::GroupVersionKind;
use kube::discovery::{ApiCapabilities, ApiResource, Scope, pinned_kind};
use serde::Deserialize;
use serde_json::Value;

use crate::error::{Error, Result};
use crate::poll;

/// Field manager of applied objects.
const MANAGER: &str = "test-cluster";

/// How long it may take until a CRD is served.
const ESTABLISHED_DEADLINE: Duration = Duration::from_secs(30);

/// The documents of a YAML text. `origin` names it in errors.
///
/// # Errors
/// [`Error::Manifest`] if it is not YAML.
pub fn parse_yaml_documents(origin: &str, text: &str) -> Result<Vec<Value>> {
    serde_yaml_ng::Deserializer::from_str(text)
        .map(Value::deserialize)
        // A leading `---` gives an empty document.
        .filter(|document| !matches!(document, Ok(Value::Null)))
        .collect::<Result<_, _>>()
        .map_err(|source| Error::Manifest { origin: origin.to_owned(), source })
}

/// The documents of a file, or of all `.yaml` files of a directory in the order of their names.
///
/// # Errors
/// [`Error::File`] and [`Error::Manifest`].
pub fn read_yaml_documents(path: &Path) -> Result<Vec<Value>> {
    let mut files = vec![path.to_owned()];
    if path.is_dir() {
        let entries = std::fs::read_dir(path).map_err(Error::file("listing", path))?;
        files = entries.flatten().map(|entry| entry.path()).collect();
        files.retain(|file| file.extension().is_some_and(|extension| extension == "yaml"));
        files.sort();
    }
    let mut all = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(&file).map_err(Error::file("reading", &file))?;
        all.extend(parse_yaml_documents(&file.display().to_string(), &text)?);
    }
    Ok(all)
}

/// Applies objects with server-side apply, CRDs first, and waits until the CRDs are served.
///
/// # Errors
/// [`Error::Untyped`] if an object has no kind, [`Error::Api`] if one is refused, [`Error::Deadline`].
pub async fn apply_manifests(client: &Client, objects: &[Value], namespace: Option<&str>) -> Result<()> {
    let (definitions, others): (Vec<_>, Vec<_>) =
        objects.iter().partition(|object| object["kind"] == "CustomResourceDefinition");
    let mut kinds = BTreeMap::new();
    for object in &definitions {
        apply_one(client, object, namespace, &mut kinds).await?;
    }
    for object in &definitions {
        until_served(client, object).await?;
    }
    for object in others {
        apply_one(client, object, namespace, &mut kinds).await?;
    }
    Ok(())
}

type Kinds = BTreeMap<(String, String), (ApiResource, ApiCapabilities)>;

async fn apply_one(
    client: &Client,
    object: &Value,
    namespace: Option<&str>,
    kinds: &mut Kinds,
) -> Result<DynamicObject> {
    let untyped = || Error::Untyped { origin: object.to_string().chars().take(200).collect() };
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
    let api_version = text("/apiVersion").ok_or_else(untyped)?;
    let kind = text("/kind").ok_or_else(untyped)?;
    let name = text("/metadata/name").ok_or_else(untyped)?;
    let key = (api_version, kind);
    if !kinds.contains_key(&key) {
        let (group, version) = key.0.split_once('/').unwrap_or(("", &key.0));
        let wanted = GroupVersionKind::gvk(group, version, &key.1);
        let found = pinned_kind(client, &wanted)
            .await
            .map_err(Error::api(format!("looking for the kind {} of {}", key.1, key.0)))?;
        kinds.insert(key.clone(), found);
    }
    let (resource, capabilities) = &kinds[&key];
    let own_namespace = text("/metadata/namespace");
    let api: Api<DynamicObject> = match capabilities.scope {
        Scope::Cluster => Api::all_with(client.clone(), resource),
        Scope::Namespaced => {
            let namespace = own_namespace.as_deref().or(namespace).unwrap_or("default");
            Api::namespaced_with(client.clone(), namespace, resource)
        }
    };
    api.patch(&name, &PatchParams::apply(MANAGER).force(), &Patch::Apply(object))
        .await
        .map_err(Error::api(format!("applying {} {name}", resource.kind)))
}

/// Waits until a CRD is established and a list of every served version succeeds.
async fn until_served(client: &Client, definition: &Value) -> Result<()> {
    let field =
        |pointer: &str| definition.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (group, kind, plural) =
        (field("/spec/group"), field("/spec/names/kind"), field("/spec/names/plural"));
    for version in definition["spec"]["versions"].as_array().into_iter().flatten() {
        if version["served"] != true {
            continue;
        }
        let gvk = GroupVersionKind::gvk(&group, version["name"].as_str().unwrap_or_default(), &kind);
        let resource = ApiResource::from_gvk_with_plural(&gvk, &plural);
        let api = Api::<DynamicObject>::all_with(client.clone(), &resource);
        let params = ListParams::default().limit(1);
        // A list returns 404 until the API server serves the resource, which happens shortly after the
        // condition is set.
        let what = || format!("the CRD {plural} is served");
        poll::poll_until(what, ESTABLISHED_DEADLINE, async || {
            Ok(api.list_metadata(&params).await.map(drop).map_err(|error| error.to_string()))
        })
        .await?;
    }
    Ok(())
}
