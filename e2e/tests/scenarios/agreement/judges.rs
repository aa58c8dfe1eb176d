//! The two who judge: our rules in this process, and the API server.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, ensure};
use kube::api::{ApiResource, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use vmpool_e2e::cluster::apply;
use vmpool_e2e::error::chain;
use vmpool_e2e::object::{API_VERSION, Kind};
use vmpool_e2e::programs::{Accounts, Component};
use vmpool_e2e::world::World;
use vmpool_engine::admission::{Found, Outcome, Request, Users};
use vmpool_platforms::dvp::admission::{
    self, Class, ClassName, Evaluation, Facts, Image, ImageId, ImageKind, Settings,
};

/// The name that the administrator of the cluster has.
pub(super) const ADMIN: &str = "admin";

/// What the cluster has, read as it is stored.
pub(super) struct Cluster {
    classes: BTreeMap<String, Class>,
    images: BTreeMap<String, Image>,
}

fn resource(kind: &str, plural: &str) -> ApiResource {
    ApiResource { kind: kind.to_owned(), plural: plural.to_owned(), ..Kind::Pool.resource() }
}

fn images(world: &World) -> Api<DynamicObject> {
    Api::all_with(world.client(), &resource("ClusterVirtualImage", "clustervirtualimages"))
}

fn classes(world: &World) -> Api<DynamicObject> {
    Api::all_with(world.client(), &resource("VirtualMachineClass", "virtualmachineclasses"))
}

/// Makes the class `sized` with sizing policies, and the images `ready` and `cdrom`, which are ready. Doing it again changes
/// nothing, so that scenarios can share them.
pub(super) async fn furnish(world: &World) -> anyhow::Result<()> {
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
    apply(&world.client(), &objects, None).await?;
    for (image, cdrom) in [("ready", false), ("cdrom", true)] {
        let status =
            json!({ "status": { "phase": "Ready", "cdrom": cdrom, "size": { "unpackedBytes": "1048576" } } });
        images(world).patch_status(image, &PatchParams::default(), &Patch::Merge(&status)).await?;
    }
    Ok(())
}

impl Cluster {
    /// Reads classes and images.
    pub(super) async fn read(world: &World) -> anyhow::Result<Self> {
        let named = |object: &DynamicObject| object.metadata.name.clone().unwrap_or_default();
        let found = classes(world).list(&ListParams::default()).await?;
        let classes = found
            .into_iter()
            .map(|class| (named(&class), Class::read(&serde_json::to_value(class).unwrap_or_default())));
        let found = images(world).list(&ListParams::default()).await?;
        let images = found.into_iter().map(|image| {
            let status = &image.data["status"];
            let unpacked = status
                .pointer("/size/unpackedBytes")
                .and_then(Value::as_str)
                .and_then(|text| text.parse().ok());
            let read = Image { ready: status["phase"] == "Ready", cdrom: status["cdrom"] == true, unpacked };
            (named(&image), read)
        });
        Ok(Self { classes: classes.collect(), images: images.collect() })
    }

    /// `None` if our rules accept the request, else what they say.
    pub(super) fn ours(&self, request: Request<'_>) -> Option<String> {
        let settings = Settings {
            users: Users {
                removal_handler: Some(Component::Apiserver.user()),
                controller: Some(Accounts::controller_user()),
            },
            ..Settings::default()
        };
        let verdict = match admission::begin(&settings, request) {
            Evaluation::Decided(verdict) => verdict,
            Evaluation::NeedsFacts(look) => {
                let needs = look.needs().clone();
                let mut facts = Facts::default();
                if let Some(ClassName::Named(name)) = &needs.class {
                    let found = self.classes.get(name);
                    facts.class = Some(found.map_or(Found::Absent, |class| Found::There(class.clone())));
                }
                for id in needs.images {
                    let ImageId { kind, name } = &id;
                    let found = self.images.get(name).filter(|_| *kind == ImageKind::Cluster);
                    let found = found.map_or(Found::Absent, |image| Found::There(image.clone()));
                    facts.images.insert(id, found);
                }
                look.finish(&facts)
            }
        };
        match verdict.outcome {
            Outcome::Allowed => None,
            Outcome::Refused(refusal) => Some(refusal.to_string()),
            Outcome::Undecided(reason) => Some(format!("undecided: {reason}")),
        }
    }
}

/// What the API server says to a create: nothing, or how it refuses.
pub(super) async fn of_create(world: &World, pool: &Value) -> anyhow::Result<Option<String>> {
    let object: DynamicObject = serde_json::from_value(pool.clone())?;
    let params = PostParams { dry_run: true, ..PostParams::default() };
    refusal(world.api(Kind::Pool).create(&params, &object).await).with_context(|| pool.to_string())
}

/// What the API server says to an update by somebody: nothing, or how it refuses.
///
/// It is sent as a patch, because not everybody may replace a pool.
pub(super) async fn of_update(
    client: &Client,
    world: &World,
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
    let api: Api<DynamicObject> = Kind::Pool.api(client.clone(), world.namespace());
    refusal(api.patch(name, &params, &Patch::Json::<()>(patch)).await).with_context(|| new.to_string())
}

/// What the API server says to a scale: nothing, or how it refuses.
pub(super) async fn of_scale(world: &World, pool: &str, replicas: i64) -> anyhow::Result<Option<String>> {
    let params = PatchParams { dry_run: true, ..PatchParams::default() };
    let patch = Patch::Merge(json!({ "spec": { "replicas": replicas } }));
    refusal(world.api(Kind::Pool).patch_scale(pool, &params, &patch).await)
}

fn refusal<T>(answer: Result<T, kube::Error>) -> anyhow::Result<Option<String>> {
    match answer {
        Ok(_) => Ok(None),
        Err(kube::Error::Api(status)) if (400..500).contains(&status.code) => Ok(Some(status.message)),
        Err(error) => anyhow::bail!("{}", chain(&error)),
    }
}

fn is_by_schema(refusal: &str) -> bool {
    !refusal.contains("denied the request")
}

/// How the answers of the two compare.
#[derive(Default)]
pub(super) struct Tally {
    pub(super) accepted: usize,
    by_schema: usize,
    /// The rules that refused something.
    rules: BTreeSet<String>,
    disagree: Vec<String>,
}

impl Tally {
    /// Takes in two answers to one question.
    pub(super) fn add(
        &mut self,
        ours: Option<&str>,
        theirs: Option<&str>,
        question: impl FnOnce() -> String,
    ) {
        match (ours, theirs) {
            (None, None) => self.accepted += 1,
            // The schema comes first, and says some of it in words of its own.
            (Some(_), Some(theirs)) if is_by_schema(theirs) => self.by_schema += 1,
            (Some(ours), Some(theirs)) if theirs.contains(ours) => {
                let rule = ours.rsplit_once("(rule ").map_or("", |(_, rule)| rule);
                self.rules.insert(rule.trim_end_matches(')').to_owned());
            }
            (ours, theirs) => {
                self.disagree.push(format!("ours: {ours:?}\ntheirs: {theirs:?}\n{}", question()));
            }
        }
    }

    /// Takes in two answers about a pool that is being deleted, of which our rules let everything pass, and the schema does
    /// not.
    pub(super) fn add_about_leaving(
        &mut self,
        ours: Option<&str>,
        theirs: Option<&str>,
        question: impl FnOnce() -> String,
    ) {
        match theirs {
            Some(theirs) if ours.is_none() && is_by_schema(theirs) => self.by_schema += 1,
            _ => self.add(ours, theirs, question),
        }
    }

    /// All answers are alike, a tenth at least was accepted, and each of these rules has refused something.
    pub(super) fn settle(&self, what: &str, count: usize, rules: &[&str]) -> anyhow::Result<()> {
        let Self { accepted, by_schema, rules: refused, disagree } = self;
        println!(
            "{count} {what}: {accepted} accepted, {by_schema} refused by the schema, the rest by {} rules",
            refused.len()
        );
        let shown = disagree[..disagree.len().min(8)].join("\n\n");
        ensure!(disagree.is_empty(), "{} of {count} {what} disagree:\n{shown}", disagree.len());
        ensure!(accepted * 10 > count, "only {accepted} of {count} {what} were accepted");
        for rule in rules {
            ensure!(refused.contains(*rule), "{rule} refused none of the {what}, only {refused:?} did");
        }
        Ok(())
    }
}
