//! The verdicts of the rules in this process, the responses of the API server, and their comparison.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;

use anyhow::{Context, ensure};
use kube::api::{ApiResource, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use vmpool_api::v1alpha2::API_VERSION;
use vmpool_e2e::world::ScenarioWorld;
use vmpool_engine::admission::{AdmissionDecision, LookupOutcome, PoolRequest, PrivilegedUsers};
use vmpool_installation::programs::{Accounts, Component};
use vmpool_invariants::object::TestedKind;
use vmpool_platforms::dvp::admission::{
    self, AdmissionSettings, ClassName, DvpAdmissionFacts, ImageId, ImageKind, MachineClass, NeededObjects,
    VirtualImageFacts,
};
use vmpool_test_cluster::control_plane::apply_manifests;
use vmpool_test_cluster::error::error_with_causes;

/// The user name of the cluster's administrator.
pub(super) const ADMIN: &str = "admin";

/// The classes and images of the cluster.
pub(super) struct ClassesAndImages {
    classes: BTreeMap<String, MachineClass>,
    images: BTreeMap<String, VirtualImageFacts>,
}

fn resource(kind: &str, plural: &str) -> ApiResource {
    ApiResource { kind: kind.to_owned(), plural: plural.to_owned(), ..TestedKind::Pool.resource() }
}

fn images(world: &ScenarioWorld) -> Api<DynamicObject> {
    Api::all_with(world.client(), &resource("ClusterVirtualImage", "clustervirtualimages"))
}

fn classes(world: &ScenarioWorld) -> Api<DynamicObject> {
    Api::all_with(world.client(), &resource("VirtualMachineClass", "virtualmachineclasses"))
}

/// Creates the class `sized` with sizing policies, and the images `ready` and `cdrom`, which are ready.
/// Existing objects do not change, so that scenarios can share them.
pub(super) async fn create_objects(world: &ScenarioWorld) -> anyhow::Result<()> {
    let object = |kind: &str, name: &str, spec: Value| {
        json!({
            "apiVersion": API_VERSION, "kind": kind, "metadata": { "name": name }, "spec": spec })
    };
    let http = json!({ "dataSource": { "type": "HTTP", "http": { "url": "https://images.example/a" } } });
    let sizing = json!({ "sizingPolicies": [
        { "cores": { "min": 1, "max": 4 }, "memory": { "min": "1Gi", "max": "4Gi", "step": "1Gi" },
          "coreFractions": ["5%", "25%", "100%"] },
        { "cores": { "min": 16, "max": 32, "step": 16 } },
    ] });
    let objects = [
        object("VirtualMachineClass", "sized", sizing),
        object("ClusterVirtualImage", "ready", http.clone()),
        object("ClusterVirtualImage", "cdrom", http),
    ];
    apply_manifests(&world.client(), &objects, None).await?;
    for (image, cdrom) in [("ready", false), ("cdrom", true)] {
        let status =
            json!({ "status": { "phase": "Ready", "cdrom": cdrom, "size": { "unpackedBytes": "1048576" } } });
        images(world).patch_status(image, &PatchParams::default(), &Patch::Merge(&status)).await?;
    }
    Ok(())
}

impl ClassesAndImages {
    /// Reads classes and images.
    pub(super) async fn read(world: &ScenarioWorld) -> anyhow::Result<Self> {
        let named = |object: &DynamicObject| object.metadata.name.clone().unwrap_or_default();
        let found = classes(world).list(&ListParams::default()).await?;
        let classes = found.into_iter().map(|class| {
            (named(&class), MachineClass::read(&serde_json::to_value(class).unwrap_or_default()))
        });
        let found = images(world).list(&ListParams::default()).await?;
        let images = found.into_iter().map(|image| {
            let status = &image.data["status"];
            let unpacked = status
                .pointer("/size/unpackedBytes")
                .and_then(Value::as_str)
                .and_then(|text| text.parse().ok());
            let read = VirtualImageFacts {
                ready: status["phase"] == "Ready",
                cdrom: status["cdrom"] == true,
                unpacked,
            };
            (named(&image), read)
        });
        Ok(Self { classes: classes.collect(), images: images.collect() })
    }

    /// The refusal of the rules; `None` if they accept the request.
    pub(super) fn verdict(&self, request: PoolRequest<'_>) -> Option<String> {
        let settings = AdmissionSettings {
            users: PrivilegedUsers {
                removal_handler: Some(Component::Apiserver.user()),
                controller: Some(Accounts::controller_user()),
            },
            ..AdmissionSettings::default()
        };
        let find = |needs: &NeededObjects| {
            let mut facts = DvpAdmissionFacts::default();
            if let Some(ClassName::Named(name)) = &needs.class {
                let found = self.classes.get(name);
                facts.class =
                    Some(found.map_or(LookupOutcome::Absent, |class| LookupOutcome::There(class.clone())));
            }
            for id in &needs.images {
                let ImageId { kind, name } = id;
                let found = self.images.get(name).filter(|_| *kind == ImageKind::Cluster);
                let found = found.map_or(LookupOutcome::Absent, |image| LookupOutcome::There(image.clone()));
                facts.images.insert(id.clone(), found);
            }
            Ok::<_, Infallible>(facts)
        };
        let Ok(verdict) = admission::evaluate_request(&settings, request, find);
        match verdict.outcome {
            AdmissionDecision::Allowed => None,
            AdmissionDecision::Refused(refusal) => Some(refusal.to_string()),
            AdmissionDecision::Malformed(reason) => Some(format!("malformed: {reason}")),
            AdmissionDecision::Undecided(reason) => Some(format!("undecided: {reason}")),
        }
    }
}

/// The API server's refusal of a create; `None` if it accepts the request.
pub(super) async fn of_create(world: &ScenarioWorld, pool: &Value) -> anyhow::Result<Option<String>> {
    let object: DynamicObject = serde_json::from_value(pool.clone())?;
    let params = PostParams { dry_run: true, ..PostParams::default() };
    refusal(world.api(TestedKind::Pool).create(&params, &object).await).with_context(|| pool.to_string())
}

/// The API server's refusal of an update; `None` if it accepts the request.
///
/// The update is sent as a patch, because some users may not replace a pool.
pub(super) async fn of_update(
    client: &Client,
    world: &ScenarioWorld,
    old: &Value,
    new: &Value,
) -> anyhow::Result<Option<String>> {
    let operations: Vec<Value> = ["/spec", "/metadata/annotations"]
        .into_iter()
        .filter_map(|path| match (old.pointer(path), new.pointer(path)) {
            (Some(_), None) => Some(json!({ "op": "remove", "path": path })),
            (_, Some(value)) => Some(json!({ "op": "add", "path": path, "value": value })),
            (None, None) => None,
        })
        .collect();
    let patch: json_patch::Patch = serde_json::from_value(Value::Array(operations))?;
    let params = PatchParams { dry_run: true, ..PatchParams::default() };
    let name = old["metadata"]["name"].as_str().unwrap_or_default();
    let api: Api<DynamicObject> = TestedKind::Pool.api(client.clone(), world.namespace());
    refusal(api.patch(name, &params, &Patch::Json::<()>(patch)).await).with_context(|| new.to_string())
}

/// The API server's refusal of a change of the scale; `None` if it accepts the request.
pub(super) async fn of_scale(
    world: &ScenarioWorld,
    pool: &str,
    replicas: i64,
) -> anyhow::Result<Option<String>> {
    let params = PatchParams { dry_run: true, ..PatchParams::default() };
    let patch = Patch::Merge(json!({ "spec": { "replicas": replicas } }));
    refusal(world.api(TestedKind::Pool).patch_scale(pool, &params, &patch).await)
}

fn refusal<T>(answer: Result<T, kube::Error>) -> anyhow::Result<Option<String>> {
    match answer {
        Ok(_) => Ok(None),
        Err(kube::Error::Api(status)) if (400..500).contains(&status.code) => Ok(Some(status.message)),
        Err(error) => anyhow::bail!("{}", error_with_causes(&error)),
    }
}

fn is_by_schema(refusal: &str) -> bool {
    !refusal.contains("denied the request")
}

/// The comparison of verdicts and responses.
#[derive(Default)]
pub(super) struct VerdictComparison {
    pub(super) accepted: usize,
    by_schema: usize,
    /// The rules that have refused a request.
    rules: BTreeSet<String>,
    differences: Vec<String>,
}

impl VerdictComparison {
    /// Adds the verdict and the response to one request.
    pub(super) fn add(
        &mut self,
        verdict: Option<&str>,
        response: Option<&str>,
        request: impl FnOnce() -> String,
    ) {
        match (verdict, response) {
            (None, None) => self.accepted += 1,
            // The schema is validated first, with different messages.
            (Some(_), Some(response)) if is_by_schema(response) => self.by_schema += 1,
            (Some(verdict), Some(response)) if response.contains(verdict) => {
                let rule = verdict.rsplit_once("(rule ").map_or("", |(_, rule)| rule);
                self.rules.insert(rule.trim_end_matches(')').to_owned());
            }
            (verdict, response) => {
                let difference = format!("verdict: {verdict:?}\nresponse: {response:?}\n{}", request());
                self.differences.push(difference);
            }
        }
    }

    /// Adds the verdict and the response to a change of a terminating pool. The rules accept all such
    /// changes, and the schema does not.
    pub(super) fn add_terminating(
        &mut self,
        verdict: Option<&str>,
        response: Option<&str>,
        request: impl FnOnce() -> String,
    ) {
        match response {
            Some(response) if verdict.is_none() && is_by_schema(response) => self.by_schema += 1,
            _ => self.add(verdict, response, request),
        }
    }

    /// Checks that there is no difference, that more than a tenth of the requests was accepted, and that each
    /// of these rules has refused a request.
    pub(super) fn finish(&self, what: &str, count: usize, rules: &[&str]) -> anyhow::Result<()> {
        let Self { accepted, by_schema, rules: refused, differences } = self;
        println!(
            "{count} {what}: {accepted} accepted, {by_schema} refused by the schema, the rest by {} rules",
            refused.len()
        );
        let shown = differences[..differences.len().min(8)].join("\n\n");
        ensure!(differences.is_empty(), "{} of {count} {what} differ:\n{shown}", differences.len());
        ensure!(accepted * 10 > count, "only {accepted} of {count} {what} were accepted");
        for rule in rules {
            ensure!(
                refused.contains(*rule),
                "rule {rule} has refused none of the {what}, only {refused:?} have"
            );
        }
        Ok(())
    }
}
