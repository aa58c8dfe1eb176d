//! Faults that scenarios inject: simulator settings, quotas, refused writes.

use k8s_openapi::api::core::v1::{ConfigMap, ResourceQuota};
use kube::Api;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use vmpool_invariants::object::{JsonObject, TestedKind};
use vmpool_test_cluster::control_plane::apply_manifests;
use vmpool_test_cluster::error::{Error, Result};
use vmpool_test_cluster::poll;

use super::objects::MANAGER;
use super::state::{DEADLINE, ScenarioWorld};

/// The ConfigMap with the simulator's settings for a namespace.
const KNOBS: &str = "simulator-knobs";

/// The annotation for a simulator setting of one machine or disk.
pub(super) fn simulator_annotation(knob: &str) -> String {
    format!("simulator.vmpool.dev/{knob}")
}

/// A resource quota of a scenario.
pub struct Quota<'w> {
    world: &'w ScenarioWorld,
    name: String,
}

/// A policy with which the API server refuses writes in the scenario's namespace.
pub struct WriteRefusalPolicy<'w> {
    world: &'w ScenarioWorld,
    name: String,
    probe: Probe,
}

impl ScenarioWorld {
    /// Sets a simulator setting for the whole namespace.
    ///
    /// # Errors
    /// [`Error::Api`].
    pub async fn knob(&self, knob: &str, value: &str) -> Result<()> {
        self.set_knob(knob, json!(value)).await
    }

    /// Resets a simulator setting of the namespace.
    ///
    /// # Errors
    /// [`Error::Api`].
    pub async fn reset_knob(&self, knob: &str) -> Result<()> {
        self.set_knob(knob, Value::Null).await
    }

    async fn set_knob(&self, knob: &str, value: Value) -> Result<()> {
        let maps = Api::<ConfigMap>::namespaced(self.client(), &self.namespace);
        let doing = || Error::api(format!("setting {knob} of the simulator"));
        if maps.get_opt(KNOBS).await.map_err(doing())?.is_none() {
            let empty = serde_json::from_value(json!({ "metadata": { "name": KNOBS } }))
                .map_err(Error::json("writing the simulator's settings"))?;
            maps.create(&PostParams::default(), &empty).await.map_err(doing())?;
        }
        let patch = json!({ "data": { knob: value } });
        maps.patch(KNOBS, &PatchParams::default(), &Patch::Merge(&patch)).await.map_err(doing())?;
        Ok(())
    }

    /// Sets a simulator setting for one machine or disk; `None` resets it.
    ///
    /// # Errors
    /// [`Error::Api`].
    pub async fn knob_of(&self, kind: TestedKind, name: &str, knob: &str, value: Option<&str>) -> Result<()> {
        let patch = json!({ "metadata": { "annotations": { simulator_annotation(knob): value } } });
        self.patch(kind, name, &patch).await.map(drop)
    }

    /// Limits the number of objects of a kind, and waits until the quota is in effect.
    ///
    /// # Errors
    /// [`Error::Api`], [`Error::Deadline`].
    pub async fn quota(&self, kind: TestedKind, most: usize) -> Result<Quota<'_>> {
        let quota = Quota { world: self, name: format!("most-{}", kind.plural()) };
        quota.set(kind, most).await?;
        Ok(quota)
    }

    /// Refuses every create of a kind with this message, and waits until the policy is in effect.
    ///
    /// # Errors
    /// [`Error::Api`], [`Error::Deadline`].
    pub async fn refuse_creates(&self, kind: TestedKind, message: &str) -> Result<WriteRefusalPolicy<'_>> {
        self.refuse(Probe::Create(kind), "CREATE", "false", message).await
    }

    /// Refuses updates of machines for which `expression` (CEL) is false. Waits until the policy is in
    /// effect: until `patch` on `machine` is refused.
    ///
    /// # Errors
    /// [`Error::Api`], [`Error::Deadline`].
    pub async fn refuse_updates(
        &self,
        machine: &JsonObject,
        patch: Value,
        expression: &str,
    ) -> Result<WriteRefusalPolicy<'_>> {
        let probe = Probe::Patch(machine.name().to_owned(), patch);
        self.refuse(probe, "UPDATE", expression, "the platform refuses this update").await
    }

    /// Refuses every create of a machine that refers to this disk with this message, and waits until that is
    /// in effect.
    ///
    /// # Errors
    /// [`Error::Api`], [`Error::Deadline`].
    pub async fn refuse_machines_on(&self, disk: &str, message: &str) -> Result<WriteRefusalPolicy<'_>> {
        let refers = format!("object.spec.blockDeviceRefs.exists(ref, ref.name == '{disk}')");
        let expression = format!("object.metadata.name != '{PROBE}' && !{refers}");
        self.refuse(Probe::Create(TestedKind::Machine), "CREATE", &expression, message).await
    }

    /// The object of `kind` that the API server would store for this spec.
    ///
    /// # Errors
    /// [`Error::Api`].
    pub(super) async fn dry_run(&self, kind: TestedKind, spec: &Value) -> Result<DynamicObject> {
        let doing = || Error::api(format!("creating {} as a dry run", kind.name()));
        self.tried_to_create(kind, spec).await?.map_err(doing())
    }

    /// Creates an object as a dry run. The inner result is the API server's verdict.
    async fn tried_to_create(&self, kind: TestedKind, spec: &Value) -> Result<kube::Result<DynamicObject>> {
        let resource = self.platform.resource(kind);
        let probe = json!({
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "metadata": { "name": PROBE, "namespace": self.namespace },
            "spec": spec,
        });
        let probe = serde_json::from_value(probe).map_err(Error::json("writing a probe"))?;
        let params = PostParams { dry_run: true, field_manager: Some(MANAGER.to_owned()) };
        Ok(self.api(kind).create(&params, &probe).await)
    }

    async fn refuse(
        &self,
        probe: Probe,
        operation: &str,
        expression: &str,
        message: &str,
    ) -> Result<WriteRefusalPolicy<'_>> {
        let resource = self.platform.resource(probe.kind());
        let name = format!("{}-{}", self.namespace, resource.plural);
        let rule = json!({
            "apiGroups": [resource.group], "apiVersions": ["*"], "operations": [operation],
            "resources": [resource.plural] });
        let here = json!({ "matchLabels": { "kubernetes.io/metadata.name": self.namespace } });
        let objects = [
            json!({
                "apiVersion": "admissionregistration.k8s.io/v1",
                "kind": "ValidatingAdmissionPolicy",
                "metadata": { "name": name },
                "spec": {
                    "failurePolicy": "Fail",
                    "matchConstraints": { "resourceRules": [rule] },
                    "validations": [{ "expression": expression, "message": message, "reason": "Forbidden" }],
                },
            }),
            json!({
                "apiVersion": "admissionregistration.k8s.io/v1",
                "kind": "ValidatingAdmissionPolicyBinding",
                "metadata": { "name": name },
                "spec": {
                    "policyName": name,
                    "validationActions": ["Deny"],
                    "matchResources": { "namespaceSelector": here },
                },
            }),
        ];
        apply_manifests(&self.client(), &objects, None).await?;
        let refusal = WriteRefusalPolicy { world: self, name, probe };
        refusal.until_in_effect(true).await?;
        Ok(refusal)
    }
}

/// Name of the object that is tried to be created.
const PROBE: &str = "is-the-rule-in-effect";

/// A dry-run request that shows whether a policy is in effect.
enum Probe {
    /// A create of this kind.
    Create(TestedKind),
    /// A merge patch of this machine.
    Patch(String, Value),
}

impl Probe {
    fn kind(&self) -> TestedKind {
        match self {
            Self::Create(kind) => *kind,
            Self::Patch(..) => TestedKind::Machine,
        }
    }
}

impl Quota<'_> {
    /// Changes the limit for a kind, and waits until it is in effect.
    ///
    /// # Errors
    /// [`Error::Api`], [`Error::Deadline`].
    pub async fn set(&self, kind: TestedKind, most: usize) -> Result<()> {
        let resource = self.world.platform.resource(kind);
        let resource = format!("count/{}.{}", resource.plural, resource.group);
        let object = json!({
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": { "name": self.name },
            "spec": { "hard": { &resource: most.to_string() } },
        });
        apply_manifests(&self.world.client(), &[object], Some(&self.world.namespace)).await?;
        let wanted = most.to_string();
        let what = || format!("quota {} of {most} is in effect", self.name);
        poll::poll_until(what, DEADLINE, async || {
            let stored = self.api().get(&self.name).await;
            let status =
                stored.map_err(Error::api(format!("reading {}", self.name)))?.status.unwrap_or_default();
            let hard = status.hard.as_ref().and_then(|hard| hard.get(&resource));
            let used = status.used.as_ref().and_then(|used| used.get(&resource));
            let in_effect = used.is_some() && hard.is_some_and(|hard| hard.0 == wanted);
            Ok(if in_effect { Ok(()) } else { Err(format!("hard {hard:?}, used {used:?}")) })
        })
        .await
    }

    /// Deletes the quota.
    ///
    /// # Errors
    /// [`Error::Api`].
    pub async fn lift(self) -> Result<()> {
        let deleted = self.api().delete(&self.name, &DeleteParams::default()).await;
        deleted.map(drop).map_err(Error::api(format!("deleting the quota {}", self.name)))
    }

    fn api(&self) -> Api<ResourceQuota> {
        Api::namespaced(self.world.client(), &self.world.namespace)
    }
}

impl WriteRefusalPolicy<'_> {
    /// Deletes the policy, and waits until it is not in effect.
    ///
    /// # Errors
    /// [`Error::Api`], [`Error::Deadline`].
    pub async fn lift(self) -> Result<()> {
        use k8s_openapi::api::admissionregistration::v1::{
            ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
        };
        let doing = || Error::api(format!("deleting the policy {}", self.name));
        let params = DeleteParams::default();
        let client = || self.world.client();
        Api::<ValidatingAdmissionPolicyBinding>::all(client())
            .delete(&self.name, &params)
            .await
            .map_err(doing())?;
        Api::<ValidatingAdmissionPolicy>::all(client()).delete(&self.name, &params).await.map_err(doing())?;
        self.until_in_effect(false).await
    }

    /// Polls with dry runs. Their object is valid, because the schema is validated first.
    async fn until_in_effect(&self, refused: bool) -> Result<()> {
        let what =
            || format!("the policy {} {}", self.name, if refused { "refuses" } else { "is not in effect" });
        poll::poll_until(what, DEADLINE, async || {
            Ok(match self.tried().await? {
                Ok(_) if !refused => Ok(()),
                Err(kube::Error::Api(status)) if refused && status.code == 403 => Ok(()),
                Ok(_) => Err("a write was accepted".to_owned()),
                Err(error) => Err(error.to_string()),
            })
        })
        .await
    }

    async fn tried(&self) -> Result<kube::Result<DynamicObject>> {
        match &self.probe {
            Probe::Create(kind) => Ok(self
                .world
                .tried_to_create(*kind, &super::foreign::smallest_spec(self.world.platform, *kind))
                .await?),
            Probe::Patch(name, patch) => {
                let params = PatchParams { dry_run: true, ..PatchParams::default() };
                let api = self.world.api(self.probe.kind());
                Ok(api.patch(name, &params, &Patch::Merge(patch)).await)
            }
        }
    }
}
