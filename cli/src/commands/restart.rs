//! `restart`: restarts machines one budgeted step at a time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PostParams, Preconditions};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::Value;
use vmpool_controller::{Preview, preview_pool};
use vmpool_engine::Machine;
use vmpool_engine::model::MachineActivity;
use vmpool_platforms::{ClientPlatform, InstanceOf, Instances, RestartRequest};

use crate::arguments::RestartArguments;
use crate::cluster::{FIELD_MANAGER, UserClusterClient, patch_params};
use crate::dry_run::WriteMode;
use crate::explain::{RequestAttempt, explain_read_error, explain_request_error};
use crate::output::print_text;
use crate::pool::decode_pool;

/// Time between two reads of the machines.
const INTERVAL: Duration = Duration::from_secs(1);

/// Restarts the named machines, or those that need a restart.
///
/// # Errors
/// A machine does not belong to the pool or is protected, a request failed, or the machines did not become
/// ready in time.
pub(crate) async fn restart_machines<P: ClientPlatform>(
    cluster: &UserClusterClient,
    _: P,
    pool: Value,
    arguments: &RestartArguments,
) -> Result<()> {
    let first = observe_pool::<P>(cluster, &pool).await?;
    let mut waiting = choose_machines_to_restart(&first, &arguments.machines, cluster)?;
    if waiting.is_empty() {
        return print_text("no machine needs a restart\n");
    }
    if arguments.dry_run.is_on() {
        for name in &waiting {
            request_restart::<P>(cluster, name, arguments.dry_run.mode).await?;
        }
        return print_text(&format!("would restart {} (server dry run)\n", waiting.join(", ")));
    }
    let deadline = cluster.env.uptime() + Duration::from_secs(arguments.timeout);
    let mut restarting: BTreeMap<String, RequestedRestart> = BTreeMap::new();
    loop {
        let preview = observe_pool::<P>(cluster, &pool).await?;
        let mut done = Vec::new();
        for (name, requested) in &restarting {
            if requested.is_done::<P>(cluster, &preview, name).await? {
                done.push(name.clone());
            }
        }
        for name in done {
            print_text(&format!("machine {name}: restarted\n"))?;
            restarting.remove(&name);
        }
        if waiting.is_empty() && restarting.is_empty() {
            return Ok(());
        }
        let budget = preview.pool.rollout.budget.of(preview.pool.desired);
        for _ in count_unavailable_machines(&preview, &restarting)..budget {
            let Some(name) = waiting.pop() else { break };
            let requested = request_restart::<P>(cluster, &name, arguments.dry_run.mode).await?;
            print_text(&format!("machine {name}: restart requested\n"))?;
            restarting.insert(name, requested);
        }
        if cluster.env.uptime() > deadline {
            let open: Vec<String> = restarting.into_keys().chain(waiting).collect();
            bail!("not all machines restarted within {} seconds: {}", arguments.timeout, open.join(", "));
        }
        cluster.env.sleep(INTERVAL).await;
    }
}

/// A requested restart.
enum RequestedRestart {
    /// This object of the platform.
    Operation(Box<Api<DynamicObject>>, String),
    /// The instance with this UID ends.
    Instance(String),
}

impl RequestedRestart {
    /// Whether the machine runs again.
    async fn is_done<P: ClientPlatform>(
        &self,
        cluster: &UserClusterClient,
        preview: &Preview,
        name: &str,
    ) -> Result<bool> {
        let Some(machine) = preview.machines.iter().find(|machine| *machine.id.name == *name) else {
            bail!("machine {name} is gone");
        };
        match self {
            Self::Instance(uid) => {
                let instance = machine.instance.as_ref();
                Ok(instance.is_some_and(|instance| instance.id.uid.as_str() != uid && instance.ready))
            }
            Self::Operation(api, operation) => {
                let found = api.get_opt(operation).await;
                let attempt = cluster.attempt::<P::Machine>("get", operation);
                // The platform deletes operations some time after they have ended.
                let Some(found) = found.map_err(|error| explain_request_error(&attempt, &error))? else {
                    return Ok(is_up(machine));
                };
                match P::restart_result(&serde_json::to_value(&found)?) {
                    Some(Err(why)) => bail!("machine {name} was not restarted: {why}"),
                    Some(Ok(())) => Ok(is_up(machine)),
                    None => Ok(false),
                }
            }
        }
    }
}

/// Number of machines that are unavailable, or whose restart is requested.
fn count_unavailable_machines(preview: &Preview, restarting: &BTreeMap<String, RequestedRestart>) -> usize {
    let down = |machine: &&Arc<Machine>| {
        !is_up(machine)
            && machine.activity != MachineActivity::Stopped
            && !restarting.contains_key(&*machine.id.name)
    };
    preview.machines.iter().filter(down).count() + restarting.len()
}

fn is_up(machine: &Machine) -> bool {
    !machine.terminating && machine.activity == MachineActivity::Running
}

/// Why a machine is not restarted that the platform would only stop.
fn cannot_restart(machine: &str) -> String {
    format!(
        "the platform restarts no machine with the run strategy of machine {machine}: stop and start it yourself"
    )
}

async fn observe_pool<P: ClientPlatform>(cluster: &UserClusterClient, pool: &Value) -> Result<Preview> {
    let (object, _) = decode_pool::<P>(pool)?;
    let preview = preview_pool::<P>(&cluster.env, cluster.client.clone(), object).await;
    preview.map_err(|error| anyhow!(explain_read_error(&error)))
}

/// The machines to restart, the last one first.
fn choose_machines_to_restart(
    preview: &Preview,
    named: &[String],
    cluster: &UserClusterClient,
) -> Result<Vec<String>> {
    let pool = &preview.pool.id;
    let own = |name: &str| {
        let machines = preview.machines.iter();
        machines.clone().find(|machine| *machine.id.name == *name && machine.belongs_to(pool))
    };
    let mut chosen: Vec<String> = if named.is_empty() {
        let needs = |machine: &Machine| {
            machine.restart_pending
                || machine.restartable
                    && machine.instance.as_ref().is_some_and(|instance| instance.revision != machine.written)
        };
        let machines = preview.machines.iter();
        machines
            .filter(|machine| machine.belongs_to(pool) && is_up(machine) && needs(machine))
            .filter(|machine| !machine.is_protected(cluster.env.now()))
            .map(|machine| machine.id.name.to_string())
            .collect()
    } else {
        named.to_vec()
    };
    chosen.sort_unstable();
    chosen.dedup();
    for name in &chosen {
        let machine = own(name)
            .with_context(|| format!("machine {name} does not belong to pool {}", preview.pool.id.name))?;
        ensure!(is_up(machine), "machine {name} does not run, so it cannot be restarted");
        ensure!(machine.restartable, "{}", cannot_restart(name));
        ensure!(
            !machine.is_protected(cluster.env.now()),
            "machine {name} is protected: nothing was restarted; `kubectl vmpool status` shows until when"
        );
    }
    chosen.reverse();
    Ok(chosen)
}

/// Requests the restart of a machine.
async fn request_restart<P: ClientPlatform>(
    cluster: &UserClusterClient,
    name: &str,
    mode: WriteMode,
) -> Result<RequestedRestart> {
    if let Some(operation) = P::restart(name) {
        return create_restart_operation(cluster, operation, mode).await;
    }
    if !P::Instances::EXIST {
        bail!("the platform cannot restart machine {name}");
    }
    let machine =
        cluster.get::<P::Machine>(name).await?.with_context(|| format!("machine {name} is gone"))?;
    let instance = cluster
        .get::<InstanceOf<P>>(name)
        .await?
        .with_context(|| format!("machine {name} has no instance"))?;
    let uid = instance["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
    let machine: P::Machine = serde_json::from_value(machine).context("reading a machine")?;
    let instance: InstanceOf<P> = serde_json::from_value(instance).context("reading an instance")?;
    match P::Instances::restart(&machine, &instance) {
        RestartRequest::DeleteInstance => {
            let preconditions = Some(Preconditions { uid: Some(uid.clone()), resource_version: None });
            let dry_run = mode.is_dry_run();
            let params = DeleteParams { dry_run, preconditions, ..DeleteParams::default() };
            let deleted = cluster.api::<InstanceOf<P>>().delete(name, &params).await;
            deleted.map_err(|error| {
                explain_request_error(&cluster.attempt::<InstanceOf<P>>("delete", name), &error)
            })?;
        }
        RestartRequest::PatchMachineStatus(patch) => {
            let params = patch_params(mode);
            let patched = cluster.api::<P::Machine>().patch_status(name, &params, &Patch::Merge(patch)).await;
            patched.map_err(|error| {
                explain_request_error(&cluster.attempt::<P::Machine>("patch", name), &error)
            })?;
        }
        RestartRequest::InProgress => {}
        RestartRequest::Impossible => bail!("{}", cannot_restart(name)),
    }
    Ok(RequestedRestart::Instance(uid))
}

/// Creates an operation of the platform in the namespace.
async fn create_restart_operation(
    cluster: &UserClusterClient,
    operation: Value,
    mode: WriteMode,
) -> Result<RequestedRestart> {
    let operation: DynamicObject = serde_json::from_value(operation).context("building the request")?;
    let types = operation.types.clone().context("the object has no type")?;
    let (group, version) = types.api_version.split_once('/').unwrap_or(("", &types.api_version));
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, &types.kind));
    let attempt = RequestAttempt {
        verb: "create",
        resource: format!("{}.{group}", resource.plural),
        name: String::new(),
        namespace: cluster.namespace.clone(),
    };
    let api: Api<DynamicObject> = Api::namespaced_with(cluster.client.clone(), &cluster.namespace, &resource);
    let params = PostParams { dry_run: mode.is_dry_run(), field_manager: Some(FIELD_MANAGER.to_owned()) };
    let created =
        api.create(&params, &operation).await.map_err(|error| explain_request_error(&attempt, &error))?;
    Ok(RequestedRestart::Operation(Box::new(api), created.metadata.name.unwrap_or_default()))
}
