//! Admission policies that take created objects away from their pool.

use kube::Api;
use kube::api::DeleteParams;
use serde_json::json;
use vmpool_invariants::object::TestedKind;
use vmpool_test_cluster::control_plane::apply_manifests;
use vmpool_test_cluster::error::{Error, Result};
use vmpool_test_cluster::poll;

use super::state::{DEADLINE, ScenarioWorld};

/// A label that the policies add, so that a dry run shows whether they are in effect.
const MARK: &str = "changed-by-policy";

/// What a policy does to created objects.
#[derive(Clone, Copy, Debug)]
pub enum CreateChange<'a> {
    /// It sets a label to this value.
    Label(&'a str, &'a str),
    /// It removes the owner references.
    NoOwner,
}

/// A policy with which the API server changes each object of a kind that is created in the scenario's
/// namespace.
pub struct CreateMutationPolicy<'w> {
    world: &'w ScenarioWorld,
    name: String,
    kind: TestedKind,
}

impl ScenarioWorld {
    /// Changes each object of a kind that is created from now on. Waits until the policy is in effect.
    ///
    /// # Errors
    /// [`Error::Api`], [`Error::Deadline`].
    pub async fn change_creates(
        &self,
        kind: TestedKind,
        change: CreateChange<'_>,
    ) -> Result<CreateMutationPolicy<'_>> {
        let resource = self.platform().resource(kind);
        let name = format!("{}-changes-{}", self.namespace, resource.plural);
        let rule = json!({
            "apiGroups": [resource.group], "apiVersions": ["*"], "operations": ["CREATE"],
            "resources": [resource.plural] });
        let labels = |labels: &str| {
            let object = format!("Object{{metadata: Object.metadata{{labels: {{{labels}}}}}}}");
            json!({ "patchType": "ApplyConfiguration", "applyConfiguration": { "expression": object } })
        };
        let mutations = match change {
            CreateChange::Label(key, value) => vec![labels(&format!("'{MARK}': 'true', '{key}': '{value}'"))],
            CreateChange::NoOwner => {
                let remove = "[JSONPatch{op: 'remove', path: '/metadata/ownerReferences'}]";
                let patch = format!("has(object.metadata.ownerReferences) ? {remove} : []");
                let patch = json!({ "patchType": "JSONPatch", "jsonPatch": { "expression": patch } });
                vec![labels(&format!("'{MARK}': 'true'")), patch]
            }
        };
        let here = json!({ "matchLabels": { "kubernetes.io/metadata.name": self.namespace } });
        let objects = [
            json!({
                "apiVersion": "admissionregistration.k8s.io/v1",
                "kind": "MutatingAdmissionPolicy",
                "metadata": { "name": name },
                "spec": {
                    "failurePolicy": "Fail",
                    "reinvocationPolicy": "IfNeeded",
                    "matchConstraints": { "resourceRules": [rule] },
                    "mutations": mutations,
                },
            }),
            json!({
                "apiVersion": "admissionregistration.k8s.io/v1",
                "kind": "MutatingAdmissionPolicyBinding",
                "metadata": { "name": name },
                "spec": { "policyName": name, "matchResources": { "namespaceSelector": here } },
            }),
        ];
        apply_manifests(&self.client(), &objects, None).await?;
        self.user_actions().policies += 1;
        let mutation = CreateMutationPolicy { world: self, name, kind };
        mutation.until_in_effect(true).await?;
        Ok(mutation)
    }
}

impl CreateMutationPolicy<'_> {
    /// Polls with dry runs.
    async fn until_in_effect(&self, is_expected: bool) -> Result<()> {
        let what = || format!("the policy {} is in effect: {is_expected}", self.name);
        poll::poll_until(what, DEADLINE, async || {
            let spec = super::foreign::smallest_spec(self.world.platform(), self.kind);
            let stored = self.world.dry_run(self.kind, &spec).await?;
            let mark = stored.metadata.labels.as_ref().and_then(|labels| labels.get(MARK));
            Ok(if mark.is_some() == is_expected { Ok(()) } else { Err(format!("{mark:?}")) })
        })
        .await
    }

    /// Deletes the policy, and waits until it is not in effect.
    ///
    /// # Errors
    /// [`Error::Api`], [`Error::Deadline`].
    pub async fn lift(self) -> Result<()> {
        use k8s_openapi::api::admissionregistration::v1::{
            MutatingAdmissionPolicy, MutatingAdmissionPolicyBinding,
        };
        let doing = || Error::api(format!("deleting the policy {}", self.name));
        let params = DeleteParams::default();
        let client = || self.world.client();
        Api::<MutatingAdmissionPolicyBinding>::all(client())
            .delete(&self.name, &params)
            .await
            .map_err(doing())?;
        Api::<MutatingAdmissionPolicy>::all(client()).delete(&self.name, &params).await.map_err(doing())?;
        self.until_in_effect(false).await
    }
}
