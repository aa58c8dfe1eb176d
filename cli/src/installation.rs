//! The installed programs of vmpool, as their Deployments and Pods show them.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Pod, PodSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{Api, ListParams};
use serde::Serialize;

use crate::cluster::UserClusterClient;
use crate::explain::{RequestAttempt, explain_request_error};

/// The label of all objects of the chart.
pub(crate) const PART_OF: &str = "app.kubernetes.io/part-of=vmpool";

/// The label with the name of a program.
const NAME_LABEL: &str = "app.kubernetes.io/name";

/// The label with the version of a program.
const VERSION_LABEL: &str = "app.kubernetes.io/version";

/// An installed program. Its JSON form is stable.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) struct InstalledProgram {
    /// Its name, for example `vmpool-controller`.
    pub(crate) name: String,
    /// The version in its label, or else the tag of its image; empty if neither exists.
    pub(crate) version: String,
    /// Its image.
    pub(crate) image: String,
}

/// The Deployments of the chart in namespace `system`.
///
/// # Errors
/// The request failed.
pub(crate) async fn list_deployments(
    cluster: &UserClusterClient,
    system: &str,
) -> kube::Result<Vec<Deployment>> {
    let api: Api<Deployment> = Api::namespaced(cluster.client.clone(), system);
    Ok(api.list(&ListParams::default().labels(PART_OF)).await?.items)
}

/// The version in the labels of an object; empty without it.
pub(crate) fn labeled_version(metadata: &ObjectMeta) -> String {
    label_value(metadata, VERSION_LABEL)
}

/// The installed programs: of the Deployments, or, if the user may not list these, of the Pods.
///
/// # Errors
/// Neither can be read. The errors are in the order of the attempts.
pub(crate) async fn find_installed_programs(
    cluster: &UserClusterClient,
    system: &str,
) -> Result<Vec<InstalledProgram>, Vec<anyhow::Error>> {
    let first = match list_deployments(cluster, system).await {
        Ok(deployments) => return Ok(programs_of_deployments(&deployments)),
        Err(error) => list_error("deployments.apps", system, &error),
    };
    let api: Api<Pod> = Api::namespaced(cluster.client.clone(), system);
    match api.list(&ListParams::default().labels(PART_OF)).await {
        Ok(pods) => Ok(programs_of_pods(&pods.items)),
        Err(error) => Err(vec![first, list_error("pods", system, &error)]),
    }
}

fn list_error(resource: &str, system: &str, error: &kube::Error) -> anyhow::Error {
    let attempt = RequestAttempt {
        verb: "list",
        resource: resource.to_owned(),
        name: String::new(),
        namespace: system.to_owned(),
    };
    explain_request_error(&attempt, error)
}

fn programs_of_deployments(deployments: &[Deployment]) -> Vec<InstalledProgram> {
    let pod_spec = |deployment: &Deployment| {
        deployment.spec.as_ref().and_then(|spec| spec.template.spec.as_ref()).cloned()
    };
    sort_programs(
        deployments
            .iter()
            .map(|deployment| installed_program(&deployment.metadata, pod_spec(deployment).as_ref())),
    )
}

/// Replicas of one program that have the same image are one entry.
fn programs_of_pods(pods: &[Pod]) -> Vec<InstalledProgram> {
    sort_programs(pods.iter().map(|pod| installed_program(&pod.metadata, pod.spec.as_ref())))
}

fn sort_programs(programs: impl Iterator<Item = InstalledProgram>) -> Vec<InstalledProgram> {
    let mut programs: Vec<InstalledProgram> = programs.collect();
    programs.sort();
    programs.dedup();
    programs
}

fn installed_program(metadata: &ObjectMeta, spec: Option<&PodSpec>) -> InstalledProgram {
    let image = spec
        .and_then(|spec| spec.containers.first())
        .and_then(|container| container.image.clone())
        .unwrap_or_default();
    let named = label_value(metadata, NAME_LABEL);
    let name = if named.is_empty() { metadata.name.clone().unwrap_or_default() } else { named };
    let labeled = labeled_version(metadata);
    let version = if labeled.is_empty() { image_tag(&image).to_owned() } else { labeled };
    InstalledProgram { name, version, image }
}

fn label_value(metadata: &ObjectMeta, label: &str) -> String {
    metadata.labels.as_ref().and_then(|labels| labels.get(label)).cloned().unwrap_or_default()
}

/// The tag of an image; empty if it has none, also if only a digest selects it.
fn image_tag(image: &str) -> &str {
    let without_digest = image.split_once('@').map_or(image, |(name, _)| name);
    let last_part = without_digest.rsplit('/').next().unwrap_or_default();
    last_part.split_once(':').map_or("", |(_, tag)| tag)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    #[rstest]
    #[case::tag("registry.example/vmpool:0.3.0", "0.3.0")]
    #[case::port_and_tag("registry.example:5000/a/vmpool:0.3.0", "0.3.0")]
    #[case::port_without_tag("registry.example:5000/a/vmpool", "")]
    #[case::tag_and_digest("vmpool:0.3.0@sha256:0123", "0.3.0")]
    #[case::digest("vmpool@sha256:0123", "")]
    fn the_tag_of_an_image_is_after_the_last_slash(#[case] image: &str, #[case] tag: &str) {
        assert_eq!(image_tag(image), tag);
    }

    fn pod(name: &str, labels: &Value, image: &str) -> Pod {
        serde_json::from_value(json!({
            "metadata": { "name": name, "labels": labels },
            "spec": { "containers": [{ "name": "program", "image": image }] },
        }))
        .unwrap()
    }

    #[test]
    fn replicas_of_a_program_are_one_entry_and_images_without_a_label_give_the_version() {
        let labels = json!({ "app.kubernetes.io/name": "vmpool-controller" });
        let pods = [pod("a", &labels, "vmpool:0.3.0"), pod("b", &labels, "vmpool:0.3.0")];
        let expected = InstalledProgram {
            name: "vmpool-controller".into(),
            version: "0.3.0".into(),
            image: "vmpool:0.3.0".into(),
        };
        assert_eq!(programs_of_pods(&pods), [expected]);
    }

    #[test]
    fn the_label_of_a_deployment_gives_the_version() {
        let deployment: Deployment = serde_json::from_value(json!({
            "metadata": { "name": "x", "labels": { "app.kubernetes.io/version": "0.4.0" } },
            "spec": {
                "selector": {},
                "template": { "spec": { "containers": [{ "name": "program", "image": "mirror/vmpool:main" }] } },
            },
        }))
        .unwrap();
        let programs = programs_of_deployments(&[deployment]);
        assert_eq!((&*programs[0].name, &*programs[0].version), ("x", "0.4.0"));
        assert_eq!(programs[0].image, "mirror/vmpool:main");
    }
}
