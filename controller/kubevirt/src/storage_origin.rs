//! The revision that the storage of a machine was created from.
//!
//! KubeVirt creates the storage of a machine once. An update of the DataVolume templates does not change
//! storage that exists, and the machine starts with it. The update therefore records the revision that the
//! storage is of.

use serde_json::{Value, json};
use vmpool_api::kubevirt::annotations::STORAGE_REVISION;
use vmpool_engine::revisions::RevisionId;

use super::keys::REVISION_LABEL;
use super::template;

/// The merge patch that records the revision of the storage of `live`, if an update from template `from` to
/// `to`, whose revision is `revision`, is the first one that changes the DataVolume templates.
pub fn record_storage_revision(
    live: &Value,
    from: &Value,
    to: &Value,
    revision: &RevisionId,
) -> Option<Value> {
    let recorded = &live["metadata"]["annotations"][STORAGE_REVISION];
    // Most updates change nothing of the storage, and a rollout asks this for each machine. Only a difference
    // of the JSON is worth the comparison as values of KubeVirt.
    let is_same = || {
        from["spec"]["dataVolumeTemplates"] == to["spec"]["dataVolumeTemplates"]
            || template::fingerprint_storage(from) == template::fingerprint_storage(to)
    };
    if recorded.is_string() || is_same() {
        return None;
    }
    let written = live["spec"]["template"]["metadata"]["labels"][REVISION_LABEL].as_str()?;
    // The update was written before, by a leader that did not record it.
    (written != revision.as_str())
        .then(|| json!({ "metadata": { "annotations": { (STORAGE_REVISION): written } } }))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::super::fixtures;
    use super::*;

    fn template() -> Value {
        fixtures::recorded_pool_spec()["virtualMachineTemplate"].clone()
    }

    fn with_source(url: &str) -> Value {
        let mut template = template();
        template["spec"]["dataVolumeTemplates"][0]["spec"]["source"] = json!({ "http": { "url": url } });
        template
    }

    #[rstest]
    #[case::first_change(with_source("https://h/typo"), with_source("https://h/right"), None, Some("herd-1"))]
    #[case::later_change(with_source("https://h/a"), with_source("https://h/b"), Some("herd-0"), None)]
    #[case::no_change(with_source("https://h/a"), with_source("https://h/a"), None, None)]
    fn the_first_change_of_the_templates_records_the_revision(
        #[case] from: Value,
        #[case] to: Value,
        #[case] recorded: Option<&str>,
        #[case] expected: Option<&str>,
    ) {
        let mut live = fixtures::recorded_machine();
        live["spec"]["template"]["metadata"]["labels"][REVISION_LABEL] = "herd-1".into();
        if let Some(recorded) = recorded {
            live["metadata"]["annotations"] = json!({ (STORAGE_REVISION): recorded });
        }
        let patch = record_storage_revision(&live, &from, &to, &"herd-2".into());
        let written = patch.map(|patch| patch["metadata"]["annotations"][STORAGE_REVISION].clone());
        assert_eq!(written, expected.map(Value::from));
        assert_eq!(
            record_storage_revision(&live, &from, &to, &"herd-1".into()),
            None,
            "the update is written already"
        );
    }
}
