//! `history`, `diff` and `rollback`: the stored revisions of a pool.

use std::collections::HashMap;

use anyhow::{Context as _, Result, anyhow, ensure};
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::ControllerRevision;
use kube::api::Patch;
use serde::Serialize;
use serde_json::{Value, json};
use similar::TextDiff;
use vmpool_engine::ParsedPool;
use vmpool_engine::revisions::RevisionId;
use vmpool_platforms::{ClientPlatform, RevisionObjects, TemplateEffect, is_controlled_by};

use crate::age::format_age;
use crate::arguments::{DiffArguments, HistoryArguments, RollbackArguments};
use crate::cluster::UserClusterClient;
use crate::output::{print_output, print_text};
use crate::pool::decode_pool;
use crate::table::{Cell, Tone, render_table};

/// The field of a pool that contains the template.
const TEMPLATE: &str = "virtualMachineTemplate";

/// A stored revision.
#[derive(Clone, Debug, Serialize)]
struct RevisionRow {
    /// The name that machines and the status show.
    revision: String,
    /// Its number in the history.
    number: i64,
    created: Option<Timestamp>,
    /// Whether it has the template of the pool.
    current: bool,
    /// Number of machines in which it is in effect; `None` if the machines cannot be read.
    machines: Option<usize>,
    /// The copies of instance types and preferences that its machines use.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    copies: Vec<String>,
    #[serde(skip)]
    content: Value,
}

/// Lists the stored revisions.
///
/// # Errors
/// A request failed.
pub(crate) async fn print_revision_history<P: ClientPlatform>(
    cluster: &UserClusterClient,
    _: P,
    pool: Value,
    arguments: &HistoryArguments,
) -> Result<()> {
    let (object, facts) = decode_pool::<P>(&pool)?;
    let mut stored = list_revisions::<P>(cluster, &object, &facts).await?;
    if let Ok(machines) = cluster.list::<P::Machine>(None).await {
        count_revision_machines::<P>(&mut stored, &machines, &facts)?;
    }
    let now = cluster.env.now();
    let has_copies = stored.iter().any(|stored| !stored.copies.is_empty());
    let rows: Vec<Vec<Cell>> = stored
        .iter()
        .map(|stored| {
            let machines = stored.machines.map(|count| count.to_string()).unwrap_or_default();
            let mut row = vec![
                stored.number.to_string().into(),
                stored.revision.clone().into(),
                stored.created.map(|created| format_age(created, now)).unwrap_or_default().into(),
                machines.into(),
                Cell::toned(if stored.current { "current template" } else { "" }, Tone::Good),
            ];
            if has_copies {
                row.push(stored.copies.join(", ").into());
            }
            row
        })
        .collect();
    let text = if rows.is_empty() {
        format!("pool {} has no stored revisions\n", arguments.pool)
    } else {
        let columns = ["NUMBER", "REVISION", "AGE", "MACHINES", "NOTE", "USES"];
        render_table(&columns[..columns.len() - usize::from(!has_copies)], &rows)
    };
    print_output(&arguments.format.output, &text, &stored)
}

/// Shows what a rollback to a revision would change.
///
/// # Errors
/// A request failed, or there is no such revision.
pub(crate) async fn print_revision_diff<P: ClientPlatform>(
    cluster: &UserClusterClient,
    _: P,
    pool: Value,
    arguments: &DiffArguments,
) -> Result<()> {
    let (object, facts) = decode_pool::<P>(&pool)?;
    let stored = list_revisions::<P>(cluster, &object, &facts).await?;
    let found = find_revision(&stored, &arguments.revision, &arguments.pool)?;
    let yaml = |template: &Value| serde_yaml_ng::to_string(template).context("writing YAML");
    let (current, stored) = (P::canonical(&P::template(&object)), P::canonical(&found.content));
    if current == stored {
        return print_text(&format!("revision {} has the template of the pool\n", found.revision));
    }
    // The template as users wrote it, for example with their spelling of quantities.
    let written = |template: &Value| json!({ TEMPLATE: template });
    let (from, to) = match P::stored_template(&found.content) {
        Some(template) => (written(&pool["spec"][TEMPLATE]), written(&template)),
        None => (current, stored),
    };
    let (from, to) = (yaml(&from)?, yaml(&to)?);
    let (from_name, to_name) = (format!("pool {}", arguments.pool), format!("revision {}", found.revision));
    print_text(&render_unified_diff(&from, &to, &from_name, &to_name))
}

/// Writes the template of a revision to the pool.
///
/// # Errors
/// A request was refused, or there is no such revision.
pub(crate) async fn roll_back_pool<P: ClientPlatform>(
    cluster: &UserClusterClient,
    _: P,
    pool: Value,
    arguments: &RollbackArguments,
) -> Result<()> {
    let (object, facts) = decode_pool::<P>(&pool)?;
    let stored = list_revisions::<P>(cluster, &object, &facts).await?;
    let found = match &arguments.to_revision {
        Some(revision) => find_revision(&stored, revision, &arguments.pool)?,
        None => previous_revision(&stored)
            .with_context(|| format!("pool {} has no earlier revision to go back to", arguments.pool))?,
    };
    ensure!(
        !found.current || facts.revision.pinned.is_some(),
        "revision {} already has the template of pool {}",
        found.revision,
        arguments.pool
    );
    let template = P::stored_template(&found.content).ok_or_else(|| {
        anyhow!("revision {} contains no machine template, so the pool was not changed", found.revision)
    })?;
    let operations = rollback_operations(&pool, &template, P::pinned_revision_pointers());
    let patch = serde_json::from_value(operations.into()).context("building the patch")?;
    if let Err(error) =
        cluster.patch::<P::Pool>(&arguments.pool, &Patch::Json::<()>(patch), arguments.dry_run.mode).await
    {
        let now = cluster.get::<P::Pool>(&arguments.pool).await.ok().flatten();
        ensure!(
            now.is_none_or(|now| is_same_template(&pool, &now, P::pinned_revision_pointers())),
            "the template of pool {} has changed since the command read it, so nothing was written; look at the change, and \
             repeat the command",
            arguments.pool
        );
        return Err(error);
    }
    if arguments.dry_run.is_on() {
        return print_text(&format!(
            "pool {}: would get the template of revision {}; `kubectl vmpool diff {0} {1}` shows the change (server dry run)\n",
            arguments.pool, found.revision
        ));
    }
    print_text(&format!(
        "pool {}: template of revision {} written; the rollout applies it to the machines\n",
        arguments.pool, found.revision
    ))
}

/// The JSON patch that writes a template. It tests what the rollback relies on, and not the version of the
/// pool, which each write of the status changes.
fn rollback_operations(pool: &Value, template: &Value, pins: &[&str]) -> Vec<Value> {
    let template_path = format!("/spec/{TEMPLATE}");
    let mut operations = vec![
        json!({ "op": "test", "path": "/metadata/uid", "value": pool["metadata"]["uid"] }),
        json!({ "op": "test", "path": template_path, "value": pool["spec"][TEMPLATE] }),
        json!({ "op": "replace", "path": template_path, "value": template }),
    ];
    for path in pins {
        if let Some(value) = pool.pointer(path) {
            operations.push(json!({ "op": "test", "path": path, "value": value }));
            operations.push(json!({ "op": "remove", "path": path }));
        }
    }
    operations
}

/// Whether both reads of a pool show what a rollback relies on.
fn is_same_template(before: &Value, after: &Value, pins: &[&str]) -> bool {
    before["metadata"]["uid"] == after["metadata"]["uid"]
        && before["spec"][TEMPLATE] == after["spec"][TEMPLATE]
        && pins.iter().all(|path| before.pointer(path).is_none_or(|value| after.pointer(path) == Some(value)))
}

/// The stored revisions, oldest first.
/// For each stored revision, what the change from it to the template of the pool takes.
///
/// # Errors
/// A request failed.
pub(crate) async fn effects_of_change<P: ClientPlatform>(
    cluster: &UserClusterClient,
    object: &P::Pool,
    pool: &ParsedPool,
) -> Result<HashMap<RevisionId, TemplateEffect>> {
    let wanted = P::canonical(&P::template(object));
    let stored = list_revisions::<P>(cluster, object, pool).await?;
    let effect = |stored: RevisionRow| {
        let effect = P::effect_of_change(&P::canonical(&stored.content), &wanted)?;
        Some((RevisionId::from(stored.revision.as_str()), effect))
    };
    Ok(stored.into_iter().filter_map(effect).collect())
}

async fn list_revisions<P: ClientPlatform>(
    cluster: &UserClusterClient,
    object: &P::Pool,
    pool: &ParsedPool,
) -> Result<Vec<RevisionRow>> {
    let selector = P::Revisions::selector(object);
    let listed = cluster.list::<ControllerRevision>(selector.as_deref()).await?;
    let current = P::canonical(&P::template(object));
    let mut stored: Vec<RevisionRow> =
        listed.into_iter().filter_map(|listed| read_revision::<P>(listed, pool, &current)).collect();
    stored.sort_by_key(|stored| stored.number);
    Ok(stored)
}

fn read_revision<P: ClientPlatform>(
    mut listed: Value,
    pool: &ParsedPool,
    current: &Value,
) -> Option<RevisionRow> {
    let content = listed["data"].take();
    let number = listed["revision"].as_i64().unwrap_or_default();
    let metadata = serde_json::from_value(listed["metadata"].take()).ok()?;
    is_controlled_by::<P::Pool>(&metadata, &pool.id).then_some(())?;
    Some(RevisionRow {
        revision: P::Revisions::id(&metadata)?.to_owned(),
        number,
        created: metadata.creation_timestamp.as_ref().map(|time| time.0),
        current: P::canonical(&content) == *current,
        machines: None,
        copies: P::copies(&content),
        content,
    })
}

/// Counts the machines of each revision.
fn count_revision_machines<P: ClientPlatform>(
    stored: &mut [RevisionRow],
    machines: &[Value],
    pool: &ParsedPool,
) -> Result<()> {
    let mut revisions = Vec::new();
    for machine in machines {
        let machine: P::Machine = serde_json::from_value(machine.clone()).context("reading a machine")?;
        let machine = P::read_machine(&machine);
        if machine.belongs_to(&pool.id) {
            revisions.extend(machine.revision.or(machine.written));
        }
    }
    for stored in stored {
        stored.machines =
            Some(revisions.iter().filter(|revision| revision.as_str() == stored.revision).count());
    }
    Ok(())
}

/// The revision with this name or number.
fn find_revision<'a>(stored: &'a [RevisionRow], wanted: &str, pool: &str) -> Result<&'a RevisionRow> {
    let by_name = stored.iter().find(|stored| stored.revision == wanted);
    let by_number = || stored.iter().find(|stored| stored.number.to_string() == wanted);
    by_name.or_else(by_number).ok_or_else(|| {
        let known: Vec<&str> = stored.iter().map(|stored| &*stored.revision).collect();
        anyhow!("pool {pool} has no stored revision {wanted}; it has: {}", known.join(", "))
    })
}

/// The last revision with another template than the pool.
fn previous_revision(stored: &[RevisionRow]) -> Option<&RevisionRow> {
    stored.iter().rev().find(|stored| !stored.current)
}

/// The difference in the unified format, in colors.
fn render_unified_diff(from: &str, to: &str, from_name: &str, to_name: &str) -> String {
    let diff = TextDiff::from_lines(from, to);
    let text = diff.unified_diff().header(from_name, to_name).to_string();
    let lines = text.lines().map(|line| {
        let tone = match line.as_bytes().first() {
            _ if line.starts_with("---") || line.starts_with("+++") => Tone::Heading,
            Some(b'+') => Tone::Good,
            Some(b'-') => Tone::Bad,
            Some(b'@') => Tone::Faint,
            _ => Tone::Plain,
        };
        tone.paint(line) + "\n"
    });
    lines.collect()
}

#[cfg(test)]
mod tests;
