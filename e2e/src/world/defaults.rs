//! Values that the platform fills in at admission.

use kube::Api;
use kube::api::DeleteParams;
use serde_json::json;
use vmpool_api::v1alpha2::GROUP;
use vmpool_invariants::object::TestedKind;
use vmpool_test_cluster::control_plane::apply_manifests;
use vmpool_test_cluster::error::{Error, Result};
use vmpool_test_cluster::poll;

use super::state::{DEADLINE, ScenarioWorld};

/// The core fraction that [`CoreFractions`] fills in for a machine with one core.
pub const FRACTION_OF_ONE_CORE: &str = "10%";
/// The core fraction that [`CoreFractions`] fills in for a machine with more cores.
pub const FRACTION_OF_MORE_CORES: &str = "50%";

/// A policy with which the API server fills in `spec.cpu.coreFraction` of machines in the scenario's
/// namespace, as the platform's own webhook does from the sizing policies of a class.
pub struct CoreFractions<'w> {
    world: &'w ScenarioWorld,
    name: String,
}

impl ScenarioWorld {
    /// Fills in the core fraction of every machine that is created or updated without one.
    ///
    /// # Errors
    /// [`Error::Api`], [`Error::Deadline`].
    pub async fn fill_core_fractions(&self) -> Result<CoreFractions<'_>> {
        let name = format!("{}-core-fractions", self.namespace);
        let rule = json!({
            "apiGroups": [GROUP], "apiVersions": ["*"], "operations": ["CREATE", "UPDATE"],
            "resources": [TestedKind::Machine.plural()] });
        let fraction =
            format!("object.spec.cpu.cores == 1 ? '{FRACTION_OF_ONE_CORE}' : '{FRACTION_OF_MORE_CORES}'");
        let patch = format!("[JSONPatch{{op: 'add', path: '/spec/cpu/coreFraction', value: {fraction}}}]");
        let here = json!({ "matchLabels": { "kubernetes.io/metadata.name": self.namespace } });
        let objects = [
            json!({
                "apiVersion": "admissionregistration.k8s.io/v1",
                "kind": "MutatingAdmissionPolicy",
                "metadata": { "name": name },
                "spec": {
                    "failurePolicy": "Fail",
                    "reinvocationPolicy": "Never",
                    "matchConstraints": { "resourceRules": [rule] },
                    "matchConditions": [
                        { "name": "no-fraction", "expression": "!has(object.spec.cpu.coreFraction)" },
                    ],
                    "mutations": [{ "patchType": "JSONPatch", "jsonPatch": { "expression": patch } }],
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
        let fractions = CoreFractions { world: self, name };
        fractions.until_in_effect().await?;
        Ok(fractions)
    }
}

impl CoreFractions<'_> {
    /// Polls with dry runs.
    async fn until_in_effect(&self) -> Result<()> {
        let what = || format!("the policy {} fills in core fractions", self.name);
        poll::poll_until(what, DEADLINE, async || {
            let mut spec = super::foreign::smallest_spec(self.world.platform(), TestedKind::Machine);
            spec["cpu"] = json!({ "cores": 1 });
            let stored = self.world.dry_run(TestedKind::Machine, &spec).await?;
            let fraction = &stored.data["spec"]["cpu"]["coreFraction"];
            Ok(if fraction == FRACTION_OF_ONE_CORE { Ok(()) } else { Err(fraction.to_string()) })
        })
        .await
    }

    /// Deletes the policy.
    ///
    /// # Errors
    /// [`Error::Api`].
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
        Ok(())
    }
}
