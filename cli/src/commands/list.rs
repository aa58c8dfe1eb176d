//! `list`: the pools of both platforms, each in one line.

use std::fmt::Write as _;

use anyhow::Result;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;
use vmpool_engine::Machine;
use vmpool_platforms::{ClientPlatform, PlatformName, with_platform};

use crate::age::format_age;
use crate::arguments::ListArguments;
use crate::cluster::{ListScope, UserClusterClient, name_of};
use crate::connection::selected_platforms;
use crate::format::Format;
use crate::leader::{LeaderState, read_leader_state};
use crate::observation::{UnobservedSpec, describe_earlier_phase};
use crate::output::{print_note, print_objects};
use crate::phase::read_published_phase;
use crate::pool::{decode_pool, phase_tone, resource_name, unserved_pools};
use crate::table::{Cell, Tone, render_table};
use crate::visible::escape_except_lines;

/// What a counter shows that is unknown.
const UNKNOWN: &str = "?";

/// Pools. The JSON form is stable.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
struct PoolListing {
    pools: Vec<PoolListEntry>,
    /// The leader, if a pool is not observed and the user may read the lease.
    #[serde(skip_serializing_if = "Option::is_none")]
    leader: Option<LeaderState>,
    /// What could not be read, and why.
    unreadable: Vec<String>,
}

/// A pool in a list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct PoolListEntry {
    namespace: String,
    name: String,
    platform: &'static str,
    /// The object as `TYPE/NAME`.
    resource: String,
    /// Desired number of machines.
    desired: usize,
    /// Existing machines; `None` without a status.
    current: Option<usize>,
    /// Machines that run.
    ready: Option<usize>,
    /// Machines with the current revision; `None` if the definition of pools does not keep the counter.
    updated: Option<usize>,
    /// Protected and claimed machines; `None` if the user may not list machines.
    protected: Option<usize>,
    /// Draining machines; `None` if the user may not list machines.
    draining: Option<usize>,
    /// The phase that the controller has published.
    phase: String,
    /// Whether the status is about the current spec.
    observed: bool,
    /// When a client wrote the spec that is not observed, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    unobserved_since: Option<Timestamp>,
    generation: i64,
    observed_generation: Option<i64>,
    deleting: bool,
    /// What the controller says about the phase.
    message: String,
    created: Option<Timestamp>,
}

impl PoolListEntry {
    /// The state in few words. A phase of an earlier generation is not shown as the present one.
    fn status(&self) -> String {
        match (self.deleting, self.observed) {
            (true, _) => "Terminating".to_owned(),
            (false, true) => self.phase.clone(),
            (false, false) => describe_earlier_phase(&self.phase),
        }
    }

    fn status_cell(&self) -> Cell {
        let tone = if self.observed && !self.deleting { phase_tone(&self.phase) } else { Tone::Notice };
        Cell::toned(self.status(), tone)
    }
}

/// Prints the pools of the namespace, or of all namespaces.
///
/// # Errors
/// No platform's pools can be read, or the cluster serves none.
pub(crate) async fn print_pool_list(
    cluster: &UserClusterClient,
    platform: Option<PlatformName>,
    arguments: &ListArguments,
) -> Result<()> {
    let scope = if arguments.all_namespaces { ListScope::Cluster } else { ListScope::Namespace };
    let mut listing = collect_pool_listing(cluster, platform, scope).await?;
    if listing.pools.iter().any(|pool| !pool.observed) {
        // A user without this right sees which pools are not observed.
        listing.leader = read_leader_state(cluster, &arguments.installation.system_namespace).await.ok();
    }
    let format = &arguments.format.output;
    let text = render_pool_table(&listing, scope, *format == Format::Wide, cluster.env.now());
    let names: Vec<String> = listing.pools.iter().map(|pool| pool.resource.clone()).collect();
    print_objects(format, &text, &names, &listing)?;
    if matches!(format, Format::Json | Format::Yaml | Format::JsonPath(_)) {
        // Programs read what is missing in the data.
        return Ok(());
    }
    if listing.pools.is_empty() {
        print_note(&match scope {
            ListScope::Namespace => format!("no pools in namespace {}\n", cluster.namespace),
            ListScope::Cluster => "no pools in any namespace\n".to_owned(),
        });
    }
    if let Some(note) = describe_unobserved_pools(&listing, cluster.env.now()) {
        print_note(&format!("{} {}\n", Tone::Notice.paint("not observed:"), escape_except_lines(&note)));
    }
    for why in &listing.unreadable {
        print_note(&format!("{} {}\n", Tone::Notice.paint("not shown:"), escape_except_lines(why)));
    }
    Ok(())
}

async fn collect_pool_listing(
    cluster: &UserClusterClient,
    platform: Option<PlatformName>,
    scope: ListScope,
) -> Result<PoolListing> {
    let mut listing = PoolListing::default();
    let (mut failures, mut is_any_served) = (Vec::new(), false);
    for asked in selected_platforms(platform) {
        let listed = with_platform!(asked, P => add_pools::<P>(cluster, scope, &mut listing).await);
        match listed {
            Ok(is_served) => is_any_served |= is_served,
            Err(error) => failures.push(error),
        }
    }
    if !is_any_served {
        return Err(if failures.is_empty() { unserved_pools() } else { failures.remove(0) });
    }
    listing.unreadable.extend(failures.iter().map(|error| format!("{error:#}")));
    listing
        .pools
        .sort_by(|a, b| (&a.namespace, &a.name, a.platform).cmp(&(&b.namespace, &b.name, b.platform)));
    Ok(listing)
}

/// Adds the pools of a platform. Returns whether the cluster serves its pools.
async fn add_pools<P: ClientPlatform>(
    cluster: &UserClusterClient,
    scope: ListScope,
    listing: &mut PoolListing,
) -> Result<bool> {
    let Some(stored) = cluster.list_if_served::<P::Pool>(scope).await? else { return Ok(false) };
    if stored.is_empty() {
        return Ok(true);
    }
    let marked = match marked_machines::<P>(cluster, scope).await {
        Ok(marked) => Some(marked),
        Err(error) => {
            listing
                .unreadable
                .push(format!("protected and draining machines of {} pools: {error:#}", P::TITLE));
            None
        }
    };
    for object in &stored {
        match pool_list_entry::<P>(object, marked.as_deref(), cluster.env.now()) {
            Ok(entry) => listing.pools.push(entry),
            Err(error) => listing.unreadable.push(format!("pool {}: {error:#}", name_of(object))),
        }
    }
    Ok(true)
}

/// The protected and the draining machines of all pools.
async fn marked_machines<P: ClientPlatform>(
    cluster: &UserClusterClient,
    scope: ListScope,
) -> Result<Vec<Machine>> {
    let now = cluster.env.now();
    let machines = cluster.list_if_served::<P::Machine>(scope).await?.unwrap_or_default();
    let decoded = machines.into_iter().filter_map(|machine| serde_json::from_value(machine).ok());
    let is_marked = |machine: &Machine| machine.is_protected(now) || machine.drain_mark().is_some();
    Ok(decoded.map(|machine: P::Machine| P::read_machine(&machine)).filter(is_marked).collect())
}

fn pool_list_entry<P: ClientPlatform>(
    stored: &Value,
    marked: Option<&[Machine]>,
    now: Timestamp,
) -> Result<PoolListEntry> {
    let (_, pool) = decode_pool::<P>(stored)?;
    let count = |field: &str| {
        let count = stored["status"][field].as_u64();
        count.and_then(|count| usize::try_from(count).ok())
    };
    let published = read_published_phase(&pool);
    let unobserved = UnobservedSpec::read(stored, &pool);
    let own = marked.map(|marked| marked.iter().filter(|machine| machine.belongs_to(&pool.id)));
    Ok(PoolListEntry {
        namespace: pool.namespace.to_string(),
        name: pool.id.name.to_string(),
        platform: P::TITLE,
        resource: resource_name::<P::Pool>(&pool.id.name),
        desired: pool.desired,
        current: count("replicas"),
        ready: count("readyReplicas"),
        updated: count("updatedReplicas"),
        protected: own.clone().map(|own| own.filter(|machine| machine.is_protected(now)).count()),
        draining: own.map(|own| own.filter(|machine| machine.drain_mark().is_some()).count()),
        phase: published.as_ref().map(|published| published.phase.clone()).unwrap_or_default(),
        observed: unobserved.is_none(),
        unobserved_since: unobserved.and_then(|unobserved| unobserved.since),
        generation: pool.generation,
        observed_generation: stored["status"]["observedGeneration"].as_i64(),
        deleting: pool.deleting,
        message: published.map(|published| published.message).unwrap_or_default(),
        created: stored["metadata"]["creationTimestamp"].as_str().and_then(|time| time.parse().ok()),
    })
}

/// How many pools the controller has not observed, since when, and whether a controller works. `None` if it
/// has observed all.
fn describe_unobserved_pools(listing: &PoolListing, now: Timestamp) -> Option<String> {
    let unobserved: Vec<&PoolListEntry> = listing.pools.iter().filter(|pool| !pool.observed).collect();
    let mut text = match &*unobserved {
        [] => return None,
        [pool] => format!("pool {}", pool.name),
        [first, ..] => format!("{} pools, for example {}", unobserved.len(), first.name),
    };
    if let Some(since) = unobserved.iter().filter_map(|pool| pool.unobserved_since).min() {
        let _ = write!(text, ", since {since} ({})", format_age(since, now));
    }
    if let Some(leader) = &listing.leader {
        let _ = write!(text, ", {}", leader.describe(now));
    }
    Some(text)
}

fn render_pool_table(listing: &PoolListing, scope: ListScope, wide: bool, now: Timestamp) -> String {
    const NARROW: [&str; 10] = [
        "NAMESPACE",
        "NAME",
        "PLATFORM",
        "DESIRED",
        "CURRENT",
        "READY",
        "UPDATED",
        "PROTECTED",
        "STATUS",
        "AGE",
    ];
    if listing.pools.is_empty() {
        return String::new();
    }
    // A column without text is omitted.
    let only = |show: bool, text: &str| if show { text.to_owned() } else { String::new() };
    let count = |count: Option<usize>| count.map_or_else(|| UNKNOWN.to_owned(), |count| count.to_string());
    let rows: Vec<Vec<Cell>> = listing
        .pools
        .iter()
        .map(|pool| {
            let age = pool.created.map(|created| format_age(created, now)).unwrap_or_default();
            // The default of the field is -1, before the first status.
            let observed = pool.observed_generation.filter(|known| *known >= 0);
            let observed = observed.map_or_else(|| UNKNOWN.to_owned(), |known| known.to_string());
            vec![
                only(scope == ListScope::Cluster, &pool.namespace).into(),
                pool.name.clone().into(),
                pool.platform.into(),
                pool.desired.to_string().into(),
                count(pool.current).into(),
                count(pool.ready).into(),
                count(pool.updated).into(),
                count(pool.protected).into(),
                pool.status_cell(),
                age.into(),
                only(wide, &count(pool.draining)).into(),
                only(wide, &format!("{observed}/{}", pool.generation)).into(),
                only(wide, &pool.message).into(),
            ]
        })
        .collect();
    let headings: Vec<&str> = NARROW.into_iter().chain(["DRAINING", "OBSERVED", "MESSAGE"]).collect();
    render_table(&headings, &rows)
}

#[cfg(test)]
mod tests;
