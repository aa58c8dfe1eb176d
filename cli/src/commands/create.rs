//! `create`: a pool of KubeVirt whose machines are those of a VirtualMachineTemplate.
//!
//! The API server of the templates replaces the parameters, with its subresource `process`. With `--local`,
//! the plugin does that, which needs only the right to read the template.

mod pool_manifest;
mod template;

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, anyhow, ensure};
use http::Request;
use serde_json::{Value, json};
use vmpool_api::kubevirt;
use vmpool_diskimage::backup::ObjectKind;

use self::pool_manifest::{PoolManifest, build_pool_manifest};
use self::template::{TemplateParameters, process_locally};
use crate::arguments::CreateArguments;
use crate::cluster::{UserClusterClient, name_of};
use crate::explain::{RequestAttempt, explain_request_error};
use crate::format::Format;
use crate::output::{print_note, print_output, print_text};

const TEMPLATE: &str = "VirtualMachineTemplate";
const TEMPLATES: &str = "virtualmachinetemplates";
/// The group with the subresources of templates.
const SUBRESOURCES: &str = "subresources.template.kubevirt.io";
/// The versions of templates, the newest first. Each has the subresources of its own version.
const TEMPLATE_VERSIONS: [ObjectKind; 2] = [
    ObjectKind { api_version: "template.kubevirt.io/v1beta1", kind: TEMPLATE, plural: TEMPLATES },
    ObjectKind { api_version: "template.kubevirt.io/v1alpha1", kind: TEMPLATE, plural: TEMPLATES },
];

/// A stored template, and the version in which it was read.
struct StoredTemplate {
    object: Value,
    kind: ObjectKind,
}

/// Creates the pool, or prints its manifest.
///
/// # Errors
/// The template does not exist, a parameter is wrong, or a request failed.
pub(crate) async fn create_pool(cluster: &UserClusterClient, arguments: &CreateArguments) -> Result<()> {
    let namespace = arguments.template_namespace.as_ref().unwrap_or(&cluster.namespace);
    let of_template = UserClusterClient { namespace: namespace.clone(), ..cluster.clone() };
    let template = find_template(&of_template, &arguments.from_template).await?;
    let pool = arguments.pool.as_deref().unwrap_or(&arguments.from_template);
    let parameters = TemplateParameters::read(&template.object["spec"], &arguments.parameters, pool)?;
    let machine = if arguments.local {
        process_locally(&template.object["spec"], &parameters)?
    } else {
        process_by_server(&of_template, &template, &parameters.given).await?
    };
    let manifest = build_pool_manifest(pool, &cluster.namespace, arguments.replicas, &machine)?;
    write_pool(cluster, arguments, &manifest).await
}

async fn write_pool(
    cluster: &UserClusterClient,
    arguments: &CreateArguments,
    manifest: &PoolManifest,
) -> Result<()> {
    for note in &manifest.notes {
        print_note(&format!("{note}\n"));
    }
    if arguments.manifest {
        return print_output(&Format::Yaml, "", &manifest.object);
    }
    let mode = arguments.dry_run.mode;
    let created = cluster.create::<kubevirt::VirtualMachinePool>(&manifest.object, mode).await?;
    let replicas = &created["spec"]["replicas"];
    print_text(&format!("pool {}: created with {replicas} replicas{}\n", name_of(&created), mode.note()))
}

async fn find_template(cluster: &UserClusterClient, name: &str) -> Result<StoredTemplate> {
    for kind in TEMPLATE_VERSIONS {
        if let Some(object) = cluster.get_of_kind(kind, name).await? {
            return Ok(StoredTemplate { object, kind });
        }
    }
    Err(anyhow!(
        "VirtualMachineTemplate {name} not found in namespace {}, or the cluster has no templates; choose another namespace \
         with --template-namespace",
        cluster.namespace
    ))
}

/// The machine of the template, as its API server processes it.
async fn process_by_server(
    cluster: &UserClusterClient,
    template: &StoredTemplate,
    parameters: &BTreeMap<String, String>,
) -> Result<Value> {
    let (_, version) = template.kind.group_version();
    let (namespace, name) = (&cluster.namespace, name_of(&template.object));
    let options = json!({
        "apiVersion": format!("{SUBRESOURCES}/{version}"), "kind": "ProcessOptions", "parameters": parameters,
    });
    let path = format!("/apis/{SUBRESOURCES}/{version}/namespaces/{namespace}/{TEMPLATES}/{name}/process");
    let request = Request::post(path)
        .header(http::header::CONTENT_TYPE, "application/json")
        .body(serde_json::to_vec(&options)?)
        .context("building the request")?;
    let attempt = RequestAttempt {
        verb: "create",
        resource: format!("{TEMPLATES}/process.{SUBRESOURCES}"),
        name: name.to_owned(),
        namespace: namespace.clone(),
    };
    let processed = cluster.client.request::<Value>(request).await.map_err(|error| {
        let error = explain_request_error(&attempt, &error);
        anyhow!(
            "{error}\nwith --local, the plugin processes the template, which needs only the right to read it"
        )
    })?;
    let machine = processed["virtualMachine"].clone();
    ensure!(machine.is_object(), "the response for template {name} has no virtualMachine");
    Ok(machine)
}

#[cfg(test)]
mod tests;
