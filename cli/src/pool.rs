//! The pool that a command is about, its platform, and what its object shows.

use anyhow::{Result, anyhow, bail, ensure};
use serde_json::Value;
use vmpool_engine::ParsedPool;
use vmpool_engine::condition::ConditionReason;
use vmpool_platforms::{ApiObject, ClientPlatform, Platform, PlatformName, with_platform};

use crate::cluster::{UserClusterClient, full_name};
use crate::connection::selected_platforms;
use crate::explain::{explain_request_error, is_unserved};
use crate::table::Tone;

/// The short names of pools, which all platforms have.
const SHORT_NAMES: [&str; 2] = ["vmpool", "vmpools"];

/// A pool in a command line: `NAME`, or `TYPE/NAME` as kubectl prints and accepts it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PoolReference {
    /// Name of the pool.
    pub(crate) name: String,
    /// The platform that the type belongs to; `None` without a type, or if pools of several platforms have
    /// it.
    pub(crate) platform: Option<PlatformName>,
}

impl PoolReference {
    /// Reads `NAME` or `TYPE/NAME`. A type is the kind, the plural or a short name, optionally with the group
    /// or with version and group.
    ///
    /// # Errors
    /// The type is not one of pools, or the name is empty.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let Some((resource, name)) = text.split_once('/') else {
            ensure!(!text.is_empty(), "the name of the pool is empty");
            return Ok(Self { name: text.to_owned(), platform: None });
        };
        ensure!(
            !name.is_empty() && !name.contains('/'),
            "{text:?} is not a pool: use NAME or TYPE/NAME, for example vmpool/web"
        );
        let is_named = |name| with_platform!(name, P => is_pool_type::<<P as Platform>::Pool>(resource));
        let mut named = PlatformName::ALL.into_iter().filter(|name| is_named(*name));
        let platform = match (named.next(), named.next()) {
            (None, _) => {
                bail!("{resource:?} in {text:?} is not a type of pools: use {}", join_choices(&pool_types()))
            }
            (Some(platform), None) => Some(platform),
            (Some(_), Some(_)) => None,
        };
        Ok(Self { name: name.to_owned(), platform })
    }

    /// The platform to look at: that of the type, or that of the flag `--platform`.
    ///
    /// # Errors
    /// They differ.
    fn selected_platform(&self, flag: Option<PlatformName>) -> Result<Option<PlatformName>> {
        let differ = self.platform.zip(flag).is_some_and(|(own, flag)| own != flag);
        ensure!(
            !differ,
            "the type of pool {} belongs to another platform than --platform: omit one of them",
            self.name
        );
        Ok(self.platform.or(flag))
    }
}

/// The type of the pools of a platform, with its group.
fn pool_type(platform: PlatformName) -> String {
    with_platform!(platform, P => full_name::<<P as Platform>::Pool>())
}

/// What a user can write as the type of a pool: the short name, and the type of each platform.
fn pool_types() -> Vec<String> {
    let short = SHORT_NAMES[0].to_owned();
    std::iter::once(short).chain(PlatformName::ALL.map(pool_type)).collect()
}

/// Choices in a sentence: `a, b or c`.
fn join_choices(choices: &[String]) -> String {
    match choices {
        [] => String::new(),
        [only] => only.clone(),
        [first @ .., last] => format!("{} or {last}", first.join(", ")),
    }
}

/// Whether `text` names the type `K` as kubectl accepts it: its plural, its kind or a short name, and after a
/// dot the group, or version and group.
fn is_pool_type<K: ApiObject>(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    let (word, suffix) = match text.split_once('.') {
        Some((word, suffix)) => (word, Some(suffix)),
        None => (&*text, None),
    };
    let (plural, kind, group) = (K::plural(&()), K::kind(&()), K::group(&()));
    let is_named = *plural == *word || kind.eq_ignore_ascii_case(word) || SHORT_NAMES.contains(&word);
    let is_in_group = suffix.is_none_or(|suffix| {
        *group == *suffix || suffix.split_once('.') == Some((&*K::version(&()), &*group))
    });
    is_named && is_in_group
}

/// The resource and the name of an object, as `kubectl get -o name` prints them.
pub(crate) fn resource_name<K: ApiObject>(name: &str) -> String {
    format!("{}.{}/{name}", K::kind(&()).to_ascii_lowercase(), K::group(&()))
}

/// The tone of a phase of a pool.
pub(crate) fn phase_tone(phase: &str) -> Tone {
    match ConditionReason::parse(phase) {
        Some(ConditionReason::Ready) => Tone::Good,
        Some(
            ConditionReason::Blocked | ConditionReason::ProgressDeadlineExceeded | ConditionReason::Failing,
        ) => Tone::Bad,
        _ => Tone::Notice,
    }
}

/// A stored pool.
#[derive(Clone, Debug)]
pub(crate) struct StoredPool {
    /// The platform that it belongs to.
    pub(crate) platform: PlatformName,
    /// The object.
    pub(crate) object: Value,
}

/// The pool does not exist on the platforms whose pools the cluster serves. A user may lack the right to read
/// pools of a platform that the cluster does not have.
fn not_found(
    cluster: &UserClusterClient,
    name: &str,
    served: &[String],
    failures: &[anyhow::Error],
) -> anyhow::Error {
    let mut text = format!(
        "pool {name} not found in namespace {} ({}); choose another namespace with -n",
        cluster.namespace,
        served.join(", ")
    );
    for failure in failures {
        text.push_str("\nnot asked: ");
        text.push_str(failure.to_string().lines().next().unwrap_or_default());
    }
    anyhow!(text)
}

/// Why the name of a pool is not enough: these platforms have a pool with the name.
fn ambiguous_name_text(name: &str, namespace: &str, platforms: &[PlatformName]) -> String {
    let flags: Vec<String> = platforms.iter().map(|platform| format!("--platform={platform}")).collect();
    let count = if platforms.len() == 2 { "both" } else { "several" };
    format!(
        "{count} platforms have a pool {name} in namespace {namespace}: choose one with {}",
        join_choices(&flags)
    )
}

/// What a cluster says about a pool of one platform.
enum PoolLookup {
    Found(Value),
    Missing,
    Unserved,
    Failed(anyhow::Error),
}

impl StoredPool {
    /// Finds a pool on the platform of its type, on the given platform, or on any.
    ///
    /// # Errors
    /// There is none, or pools of several platforms have this name, or a request failed.
    pub(crate) async fn find(
        cluster: &UserClusterClient,
        reference: &PoolReference,
        platform: Option<PlatformName>,
    ) -> Result<Self> {
        let platform = reference.selected_platform(platform)?;
        let name = &*reference.name;
        let (mut found, mut failures, mut served) = (Vec::new(), Vec::new(), Vec::new());
        for asked in selected_platforms(platform) {
            match with_platform!(asked, P => look_up_pool::<P>(cluster, name).await) {
                PoolLookup::Found(object) => found.push(Self { platform: asked, object }),
                PoolLookup::Missing => served.push(pool_type(asked)),
                PoolLookup::Unserved => {}
                PoolLookup::Failed(error) => failures.push(error),
            }
        }
        if found.len() > 1 {
            let platforms: Vec<PlatformName> = found.iter().map(|pool| pool.platform).collect();
            bail!(ambiguous_name_text(name, &cluster.namespace, &platforms));
        }
        match found.pop() {
            Some(pool) => Ok(pool),
            None if !served.is_empty() => Err(not_found(cluster, name, &served, &failures)),
            None if !failures.is_empty() => Err(failures.remove(0)),
            None => Err(unserved_pools()),
        }
    }
}

/// The cluster serves pools of no platform.
pub(crate) fn unserved_pools() -> anyhow::Error {
    anyhow!("the cluster serves no pools of virtual machines; `kubectl vmpool doctor` says what is missing")
}

async fn look_up_pool<P: ClientPlatform>(cluster: &UserClusterClient, name: &str) -> PoolLookup {
    match cluster.api::<P::Pool>().get(name).await {
        Ok(object) => match serde_json::to_value(&object) {
            Ok(object) => PoolLookup::Found(object),
            Err(error) => PoolLookup::Failed(error.into()),
        },
        Err(error) if is_unserved(&error) => PoolLookup::Unserved,
        Err(kube::Error::Api(status)) if status.code == 404 => PoolLookup::Missing,
        Err(error) => {
            PoolLookup::Failed(explain_request_error(&cluster.attempt::<P::Pool>("get", name), &error))
        }
    }
}

/// The pool in the words of the engine.
pub(crate) fn decode_pool<P: ClientPlatform>(object: &Value) -> Result<(P::Pool, ParsedPool)> {
    let pool: P::Pool = serde_json::from_value(object.clone())
        .map_err(|error| anyhow!("the pool that the API server returned cannot be read: {error}"))?;
    let facts = P::read_pool(&pool);
    Ok((pool, facts))
}

#[cfg(test)]
mod tests;
