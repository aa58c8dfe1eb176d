//! Admission of instance types, preferences and the machines that name them, with the chart's webhook in the
//! mode without KubeVirt's own webhooks.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use http::Method;
use serde_json::{Value, json};
use vmpool_e2e::wait::eventually;
use vmpool_installation::installation::ClusterInstallation;
use vmpool_installation::programs::Component;

use crate::{TestNamespace, guarded, run_to_end};

const NAMESPACE: &str = "team";
/// A user with the built-in role `edit`.
const EDITOR: &str = "alice";
const TYPES: &str = "/apis/instancetype.kubevirt.io/v1beta1/namespaces/team/virtualmachineinstancetypes";
const CLUSTER_PREFERENCES: &str = "/apis/instancetype.kubevirt.io/v1beta1/virtualmachineclusterpreferences";
const MACHINES: &str = "/apis/kubevirt.io/v1/namespaces/team/virtualmachines";
const CLAIMS: &str = "/api/v1/namespaces/team/persistentvolumeclaims";

/// Serves `v1` with the schema of `v1beta1`, as the chart does.
const ADD_V1: &str = r#"[
    { "op": "copy", "from": "/spec/versions/0", "path": "/spec/versions/1" },
    { "op": "replace", "path": "/spec/versions/1/name", "value": "v1" },
    { "op": "replace", "path": "/spec/versions/1/storage", "value": false }
]"#;

fn instancetype(name: &str, spec: &Value) -> Value {
    json!({ "apiVersion": "instancetype.kubevirt.io/v1beta1", "kind": "VirtualMachineInstancetype",
        "metadata": { "name": name }, "spec": spec })
}

fn preference(name: &str, spec: &Value) -> Value {
    json!({ "apiVersion": "instancetype.kubevirt.io/v1beta1", "kind": "VirtualMachineClusterPreference",
        "metadata": { "name": name }, "spec": spec })
}

/// A stopped machine, with these fields in its spec.
fn machine(name: &str, fields: &Value) -> Value {
    let mut spec =
        json!({ "runStrategy": "Halted", "template": { "spec": { "domain": { "devices": {} } } } });
    for (field, value) in fields.as_object().into_iter().flatten() {
        spec[field] = value.clone();
    }
    json!({ "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "metadata": { "name": name }, "spec": spec })
}

/// A matcher of an instance type of the namespace.
fn small() -> Value {
    json!({ "name": "small", "kind": "VirtualMachineInstancetype" })
}

/// A template whose machine sets its memory itself.
fn with_memory(memory: &str) -> Value {
    json!({ "spec": { "domain": { "devices": {}, "memory": { "guest": memory } } } })
}

/// A template with a volume from this claim.
fn with_volume(claim: &str) -> Value {
    json!({ "spec": { "domain": { "devices": {} },
        "volumes": [{ "name": "root", "persistentVolumeClaim": { "claimName": claim } }] } })
}

/// The user who sends a request. Rights on machines are KubeVirt's, so the administrator sends these.
fn user(path: &str) -> &'static str {
    if path.starts_with(MACHINES) { "" } else { EDITOR }
}

struct World<'c> {
    place: TestNamespace<'c>,
    installation: &'c ClusterInstallation,
}

impl World<'_> {
    /// The code and the text of the refusal of a request that must be refused.
    async fn refused(&self, method: Method, path: &str, body: &Value) -> Result<(u16, String)> {
        let answer = self.place.send_as(user(path), method, path, body).await?;
        let status = answer.err().with_context(|| format!("{body} is accepted"))?;
        let causes = status.details.map(|details| details.causes).unwrap_or_default();
        let fields: Vec<String> = causes.into_iter().map(|cause| cause.field).collect();
        Ok((status.code, format!("{} fields: {}", status.message, fields.join(", "))))
    }

    /// The stored object of a request that must be accepted.
    async fn accepted(&self, method: Method, path: &str, body: &Value) -> Result<Value> {
        let answer = self.place.send_as(user(path), method, path, body).await?;
        answer
            .map_err(|status| anyhow::anyhow!("{}", status.message))
            .with_context(|| format!("{path} {body}"))
    }

    /// Waits until the webhook reviews instance types, and the editor has the chart's role.
    async fn until_reviewed(&self) -> Result<()> {
        let probe = instancetype("probe", &json!({ "cpu": { "guest": 0 }, "memory": { "guest": "1Gi" } }));
        let path = format!("{TYPES}?dryRun=All");
        eventually("the webhook reviews instance types", Duration::from_mins(1), async || {
            let answer = self.place.send_as(EDITOR, Method::POST, &path, &probe).await?;
            let reviewed = answer.as_ref().is_err_and(|status| status.message.contains("at least 1"));
            Ok(if reviewed { Ok(()) } else { Err(format!("{answer:?}")) })
        })
        .await
    }

    /// The objects are validated, with all causes.
    async fn objects(&self) -> Result<()> {
        let memory = json!({ "guest": "2Gi", "maxGuest": "1Gi", "overcommitPercent": 5, "hugepages": { "pageSize": "2Mi" } });
        let invalid = instancetype("bad", &json!({ "cpu": { "guest": 0 }, "memory": memory }));
        let (code, text) = self.refused(Method::POST, TYPES, &invalid).await?;
        let fields = "fields: spec.cpu.guest, spec.memory.maxGuest, spec.memory.overcommitPercent";
        ensure!(code == 422 && text.ends_with(fields), "{code} {text}");
        let sound = json!({ "cpu": { "guest": 2 }, "memory": { "guest": "2Gi" } });
        let (_, text) = self.refused(Method::POST, TYPES, &instancetype(&"n".repeat(64), &sound)).await?;
        ensure!(text.contains("at most 63"), "{text}");
        let small = self.accepted(Method::POST, TYPES, &instancetype("small", &sound)).await?;
        // No controller runs: the webhook protects the object.
        ensure!(small["metadata"]["finalizers"] == json!(["vmpool.dev/instancetype-protection"]), "{small}");
        let path = format!("{TYPES}/small");
        let patch = json!({ "spec": { "cpu": { "guest": 0 } } });
        self.refused(Method::PATCH, &path, &patch).await?;

        // An administrator creates the objects of the cluster, and all users may read them.
        let spread = json!({ "cpu": { "preferredCPUTopology": "spread", "spreadOptions": { "ratio": 0 } } });
        let invalid = preference("spread", &spread);
        let answer = self.place.send(Method::POST, CLUSTER_PREFERENCES, &invalid).await?;
        let status = answer.err().context("a ratio of 0 is accepted")?;
        ensure!(status.message.contains("spec.cpu.spreadOptions.ratio"), "{}", status.message);
        let linux = json!({
            "preferredArchitecture": "arm64",
            "machine": { "preferredMachineType": "virt" },
            "volumes": { "preferredStorageClassName": "fast" },
            "requirements": { "memory": { "guest": "1Gi" } },
        });
        self.place.ask(Method::POST, CLUSTER_PREFERENCES, &preference("linux", &linux)).await?;
        self.accepted(Method::GET, &format!("{CLUSTER_PREFERENCES}/linux"), &Value::Null).await?;
        Ok(())
    }

    /// With the version that the gate `InstancetypeV1` adds, the same objects are validated and protected.
    async fn version_v1(&self) -> Result<()> {
        let name = "virtualmachineinstancetypes.instancetype.kubevirt.io";
        self.place.cluster.kubectl(&["patch", "crd", name, "--type=json", "-p", ADD_V1]).await?;
        let types = TYPES.replace("v1beta1", "v1");
        eventually("the cluster serves v1", Duration::from_mins(1), async || {
            let answer = self.place.send(Method::GET, &types, &Value::Null).await?;
            Ok(answer.map(|_| ()).map_err(|status| status.message))
        })
        .await?;
        let in_v1 = |name: &str, vcpus: u32| {
            let spec = json!({ "cpu": { "guest": vcpus }, "memory": { "guest": "2Gi" } });
            let mut object = instancetype(name, &spec);
            object["apiVersion"] = "instancetype.kubevirt.io/v1".into();
            object
        };
        let (code, text) = self.refused(Method::POST, &types, &in_v1("bad", 0)).await?;
        ensure!(code == 422 && text.ends_with("fields: spec.cpu.guest"), "{code} {text}");
        let stored = self.accepted(Method::POST, &types, &in_v1("stable", 2)).await?;
        ensure!(stored["apiVersion"] == "instancetype.kubevirt.io/v1", "{stored}");
        ensure!(
            stored["metadata"]["finalizers"] == json!(["vmpool.dev/instancetype-protection"]),
            "{stored}"
        );
        let beta = self.accepted(Method::GET, &format!("{TYPES}/stable"), &Value::Null).await?;
        ensure!(beta["apiVersion"] == "instancetype.kubevirt.io/v1beta1", "{beta}");
        ensure!(beta["spec"] == stored["spec"], "{beta} {stored}");
        let path = format!("{types}/stable");
        self.refused(Method::PATCH, &path, &json!({ "spec": { "cpu": { "guest": 0 } } })).await?;
        Ok(())
    }

    /// Machines that do not fit are refused, and missing objects are not.
    async fn machines(&self) -> Result<()> {
        let conflict =
            machine("conflict", &json!({ "instancetype": small(), "template": with_memory("1Gi") }));
        let (code, text) = self.refused(Method::POST, MACHINES, &conflict).await?;
        ensure!(code == 422 && text.contains("VirtualMachineInstancetype \"small\" sets"), "{code} {text}");
        ensure!(text.ends_with("fields: spec.template.spec.domain.memory.guest"), "{text}");
        let matcher = machine("matcher", &json!({ "preference": { "kind": "VirtualMachinePreference" } }));
        let (_, text) = self.refused(Method::POST, MACHINES, &matcher).await?;
        ensure!(text.ends_with("fields: spec.preference"), "{text}");
        let little = machine(
            "little",
            &json!({ "preference": { "name": "linux" }, "template": with_memory("512Mi") }),
        );
        let (_, text) = self.refused(Method::POST, MACHINES, &little).await?;
        ensure!(text.contains("requires 1Gi of memory"), "{text}");
        let missing = machine("missing", &json!({ "instancetype": { "name": "absent" } }));
        self.accepted(Method::POST, MACHINES, &missing).await?;

        // What must be known before an instance exists comes from the preference.
        let templates = json!([{ "metadata": { "name": "root" }, "spec": {
            "source": { "blank": {} }, "storage": { "resources": { "requests": { "storage": "1Gi" } } } } }]);
        let fields = json!({ "instancetype": small(), "preference": { "name": "linux" }, "dataVolumeTemplates": templates });
        let complete = self.accepted(Method::POST, MACHINES, &machine("complete", &fields)).await?;
        ensure!(complete.pointer("/spec/template/spec/architecture") == Some(&json!("arm64")), "{complete}");
        ensure!(
            complete.pointer("/spec/template/spec/domain/machine/type") == Some(&json!("virt")),
            "{complete}"
        );
        ensure!(
            complete.pointer("/spec/dataVolumeTemplates/0/spec/storage/storageClassName")
                == Some(&json!("fast")),
            "{complete}"
        );
        Ok(())
    }

    /// Names come from the labels of volumes.
    async fn inference(&self) -> Result<()> {
        for (name, labels) in [
            (
                "debian",
                json!({ "instancetype.kubevirt.io/default-instancetype": "small",
                "instancetype.kubevirt.io/default-instancetype-kind": "VirtualMachineInstancetype" }),
            ),
            ("plain", json!({})),
        ] {
            let claim = json!({ "apiVersion": "v1", "kind": "PersistentVolumeClaim",
                "metadata": { "name": name, "labels": labels },
                "spec": { "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } } });
            self.place.ask(Method::POST, CLAIMS, &claim).await?;
        }
        let inferring = |name: &str, claim: &str, policy: &str| {
            let matcher = json!({ "inferFromVolume": "root", "inferFromVolumeFailurePolicy": policy });
            machine(name, &json!({ "instancetype": matcher, "template": with_volume(claim) }))
        };
        let inferred =
            self.accepted(Method::POST, MACHINES, &inferring("inferred", "debian", "Reject")).await?;
        ensure!(inferred["spec"]["instancetype"] == small(), "{inferred}");
        let (code, text) =
            self.refused(Method::POST, MACHINES, &inferring("plain", "plain", "Reject")).await?;
        ensure!(code == 400 && text.ends_with("fields: spec.instancetype.inferFromVolume"), "{code} {text}");
        let ignored = self.accepted(Method::POST, MACHINES, &inferring("plain", "plain", "Ignore")).await?;
        ensure!(ignored["spec"]["instancetype"].is_null(), "{ignored}");
        let gone = inferring("gone", "gone", "Ignore");
        ensure!(self.refused(Method::POST, MACHINES, &gone).await?.0 == 400);
        Ok(())
    }

    /// Stopping, labeling and deleting a machine is possible although it does not fit its type any more, and
    /// also while the webhook is not available.
    async fn unrelated_changes(&self) -> Result<()> {
        let large = json!({ "spec": { "nodeSelector": { "disk": "ssd" } } });
        let mut fields = json!({ "instancetype": small() });
        fields["template"] =
            json!({ "spec": { "domain": { "devices": {} }, "nodeSelector": { "disk": "hdd" } } });
        let mut object = machine("old", &fields);
        object["metadata"]["finalizers"] = json!(["example.com/keep"]);
        self.accepted(Method::POST, MACHINES, &object).await?;
        self.accepted(Method::PATCH, &format!("{TYPES}/small"), &large).await?;
        let old = format!("{MACHINES}/old");
        let template = json!({ "spec": { "template": { "spec": { "terminationGracePeriodSeconds": 5 } } } });
        let (_, text) = self.refused(Method::PATCH, &old, &template).await?;
        ensure!(text.ends_with("fields: spec.template.spec.nodeSelector"), "{text}");
        self.accepted(Method::PATCH, &old, &json!({ "spec": { "runStrategy": "Manual" } })).await?;

        self.installation.guard()?.service(Component::Webhook)?.kill_all();
        let new = machine("new", &json!({ "instancetype": small() }));
        ensure!(self.refused(Method::POST, MACHINES, &new).await?.0 == 500, "an outage disables validation");
        self.accepted(Method::POST, MACHINES, &machine("untyped", &json!({}))).await?;
        self.accepted(Method::PATCH, &old, &json!({ "spec": { "runStrategy": "Halted" } })).await?;
        self.accepted(Method::PATCH, &old, &json!({ "metadata": { "labels": { "a": "b" } } })).await?;
        self.accepted(
            Method::PATCH,
            &format!("{TYPES}/small"),
            &json!({ "metadata": { "labels": { "a": "b" } } }),
        )
        .await?;
        self.accepted(Method::DELETE, &format!("{TYPES}/small"), &Value::Null).await?;
        self.accepted(Method::DELETE, &old, &Value::Null).await?;
        self.accepted(Method::PATCH, &old, &json!({ "metadata": { "finalizers": null } })).await?;
        Ok(())
    }
}

#[test]
fn types_and_machines_are_reviewed_without_kubevirts_own_webhooks() {
    run_to_end(async {
        let (cluster, installation) = guarded::standalone("type-admission", &[]).await?;
        cluster.kubectl(&["create", "namespace", NAMESPACE]).await?;
        let user = format!("--user={EDITOR}");
        cluster
            .kubectl(&["create", "rolebinding", EDITOR, "--clusterrole=edit", &user, "-n", NAMESPACE])
            .await?;
        let place = TestNamespace { cluster: &cluster, namespace: NAMESPACE };
        let world = World { place, installation: &installation };
        world.until_reviewed().await?;
        world.objects().await?;
        world.version_v1().await?;
        world.machines().await?;
        world.inference().await?;
        world.unrelated_changes().await?;
        installation.stop().await?;
        drop(cluster);
        Ok(())
    });
}
