//! The sample manifests: accepted, or refused with the field and the message that they name.

use anyhow::{Context as _, Result, ensure};
use rstest::rstest;

use crate::{
    Unknown, parse_yaml_documents, read_yaml_documents, sample_files, with_namespace, workspace_root,
};

#[rstest]
#[case::kubevirt("kubevirt")]
#[case::disk_images("diskimage")]
fn the_api_server_accepts_the_accepted_samples(#[case] family: &str) {
    with_namespace(&format!("{family}-accepted"), async |place| {
        let mut wrong = Vec::new();
        for (file, text) in sample_files(&format!("{family}/accepted"))? {
            let name = file.display().to_string();
            for object in parse_yaml_documents(&name, &text)? {
                if let Err(status) = place.write(&object, Unknown::Refused).await? {
                    wrong.push(format!("{name}: {}", status.message));
                }
            }
        }
        ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
        Ok(())
    });
}

/// The message and the field that the first two lines of a rejected sample name.
fn expectation(text: &str) -> Result<(&str, &str)> {
    let mut lines = text.lines();
    let mut next = |prefix: &str| lines.next().and_then(|line| line.strip_prefix(prefix)).map(str::trim);
    let message = next("# rejected: ").filter(|message| !message.is_empty());
    let message = message.context("the first line is not `# rejected: <part of the message>`")?;
    let field = next("# field:").context("the second line is not `# field: <path of the field>`")?;
    Ok((message, field))
}

#[rstest]
#[case::kubevirt("kubevirt")]
#[case::disk_images("diskimage")]
fn rejected_samples_are_rejected_with_their_field_and_message(#[case] family: &str) {
    with_namespace(&format!("{family}-rejected"), async |place| {
        let mut wrong = Vec::new();
        for (file, text) in sample_files(&format!("{family}/rejected"))? {
            let name = file.display().to_string();
            let (message, field) = expectation(&text).with_context(|| name.clone())?;
            let mut objects = parse_yaml_documents(&name, &text)?;
            let last = objects.pop().with_context(|| format!("{name} is empty"))?;
            // All documents but the last one prepare the state for the last one.
            for object in objects {
                if let Err(status) = place.write(&object, Unknown::Refused).await? {
                    wrong.push(format!(
                        "{name}: a document before the last one was rejected: {}",
                        status.message
                    ));
                }
            }
            let Err(status) = place.write(&last, Unknown::Refused).await? else {
                wrong.push(format!("{name} was accepted"));
                continue;
            };
            // A client compares the causes. A request that cannot be decoded has none.
            let causes = status.details.iter().flat_map(|details| &details.causes);
            let mut causes: Vec<(&str, &str)> =
                causes.map(|cause| (cause.field.as_str(), cause.message.as_str())).collect();
            if causes.is_empty() {
                causes.push(("", status.message.as_str()));
            }
            let named =
                |(at, why): &(&str, &str)| why.contains(message) && (field.is_empty() || *at == field);
            if !causes.iter().any(named) {
                wrong.push(format!("{name} was rejected, but not at {field:?} for {message:?}: {causes:?}"));
            }
        }
        ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
        Ok(())
    });
}

#[test]
fn lists_and_texts_have_limits() {
    with_namespace("kubevirt-limits", async |place| {
        let expression = serde_json::json!({ "key": "farm", "operator": "Exists" });
        let too_long = "x".repeat(1025);
        for (pointer, value, message) in [
            ("/spec/selector/matchExpressions", vec![expression; 257].into(), "must have at most 256 items"),
            ("/spec/selector/matchLabels/farm", too_long.clone().into(), "Too long: may not be"),
            ("/spec/virtualMachineTemplate/metadata/labels/farm", too_long.into(), "Too long: may not be"),
        ] {
            let mut pool = crate::minimal("limits");
            let (parent, field) = pointer.rsplit_once('/').context("a pointer has a slash")?;
            pool.pointer_mut(parent).context("the parent exists")?[field] = value;
            let status = place.write(&pool, Unknown::Refused).await?.err();
            let text = status.with_context(|| format!("{pointer} was accepted"))?.message;
            ensure!(text.contains(message), "{pointer}: {text}");
        }
        Ok(())
    });
}

#[test]
fn the_examples_of_disk_images_are_accepted() {
    with_namespace("disk-image-examples", async |place| {
        let examples = read_yaml_documents(&workspace_root().join("docs/examples/disk-images"))?;
        ensure!(examples.len() >= 3, "only {} examples", examples.len());
        for object in examples {
            let stored = place.write(&object, Unknown::Refused).await?;
            stored.map_err(|status| anyhow::anyhow!("{}: {}", object["kind"], status.message))?;
        }
        Ok(())
    });
}
