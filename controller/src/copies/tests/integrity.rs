//! Copies whose content another client exchanges. The data of a ControllerRevision cannot change, so the
//! client deletes the copy and creates another object with its name.

use serde_json::json;

use super::*;

impl LeaderWorld {
    /// Exchanges a ControllerRevision for one with the same metadata and another size.
    fn exchange(&self, name: &str, change: impl FnOnce(&mut Value)) {
        let mut foreign = self.server.get(REVISIONS, name).unwrap();
        self.server.delete(REVISIONS, name);
        let metadata = foreign["metadata"].as_object_mut().unwrap();
        metadata.retain(|field, _| ["name", "namespace", "labels", "ownerReferences"].contains(&&**field));
        foreign["data"]["spec"]["cpu"]["guest"] = json!(64);
        change(&mut foreign);
        self.server.create(REVISIONS, foreign);
    }

    /// The vCPUs in a copy.
    pub(super) fn size_of(&self, copy: &str) -> Option<Value> {
        Some(self.server.get(REVISIONS, copy)?["data"]["spec"]["cpu"]["guest"].clone())
    }
}

#[rstest]
#[case::of_the_current_template(false, false)]
#[case::while_the_controller_is_away(false, true)]
#[case::of_an_older_template(true, false)]
#[case::of_an_older_template_while_the_controller_is_away(true, true)]
#[tokio::test]
async fn a_copy_of_a_pool_with_foreign_data_is_made_again(#[case] is_older: bool, #[case] is_away: bool) {
    let mut world = world(None).await;
    world.run_pool("web").await;
    let pin = world.pin_of("web-0");
    if is_older {
        world.refresh_type("web").await;
        assert_eq!(world.pin_of("web-0"), pin, "the machine is not updated");
    }
    if is_away {
        world.kill_leader().await;
    }
    world.exchange(&pin, |_| ());
    if is_away {
        world.lead_all(&[PlatformName::Kubevirt]);
    }
    world.calm().await;
    assert_eq!(world.size_of(&pin), Some(json!(2)));
    let events = world.server.all("events");
    assert!(events.iter().any(|event| event["reason"] == "PinRepaired"), "{events:#?}");
    world.stays_settled().await;
    // An equal object in its place is compared once.
    world.exchange(&pin, |equal| equal["data"]["spec"]["cpu"]["guest"] = json!(2));
    let equal = world.uid(REVISIONS, &pin);
    world.calm().await;
    assert_eq!(world.uid(REVISIONS, &pin), equal);
    world.stays_settled().await;
}

#[tokio::test]
async fn a_foreign_object_with_the_name_of_a_copy_is_not_touched() {
    let world = world(None).await;
    world.run_pool("web").await;
    let pin = world.pin_of("web-0");
    world.exchange(&pin, |foreign| foreign["metadata"]["labels"] = json!({}));
    let foreign = world.uid(REVISIONS, &pin);
    world.advance(60 * SECOND).await;
    assert_eq!(world.uid(REVISIONS, &pin), foreign);
    let pool = world.server.get(POOLS, "web").unwrap();
    assert!(pool["status"]["conditions"].to_string().contains("exists with another content"), "{pool:#}");
}
