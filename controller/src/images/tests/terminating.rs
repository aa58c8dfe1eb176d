//! Pools and images that are being deleted.

use super::*;

impl LeaderWorld {
    /// Requests the deletion of an image, which the references hold.
    async fn request_deletion(&self, image: &str) {
        self.server.delete(IMAGES, image);
        self.advance(SECOND).await;
        let stored = self.server.get(IMAGES, image).unwrap();
        assert!(stored["status"]["conditions"].to_string().contains("\"InUse\""), "{stored}");
    }
}

#[tokio::test]
async fn a_pool_that_holds_a_terminating_image_keeps_working() {
    let mut world = with_images();
    world.lead_with_image("debian").await;
    world.server.create(POOLS, pool("web", "debian"));
    world.advance(SECOND).await;
    assert_eq!(world.server.all(MACHINES).len(), 2);
    // Given an image whose deletion waits for the pool,
    world.request_deletion("debian").await;
    // when a user deletes a machine, and scales the pool up,
    world.server.delete(MACHINES, "web-0");
    world.server.edit(POOLS, "web", |pool| pool["spec"]["replicas"] = json!(3));
    world.advance(2 * SECOND).await;
    // then the pool and the image do not wait for each other.
    assert_eq!(world.server.all(MACHINES).len(), 3);
    assert_eq!(world.images_ready("web"), None);
}

#[tokio::test]
async fn a_pool_that_names_a_terminating_image_for_the_first_time_does_not_use_it() {
    let mut world = with_images();
    world.lead_with_image("debian").await;
    world.server.create(POOLS, pool("web", "debian"));
    world.advance(SECOND).await;
    world.request_deletion("debian").await;
    // The webhook did not respond when these were stored.
    world.advance(SECOND).await;
    world.server.create(POOLS, pool("late", "debian"));
    world.advance(2 * SECOND).await;
    assert_eq!(world.images_ready("late").unwrap()["reason"], "ImageTerminating");
    assert_eq!(world.server.all(MACHINES).len(), 2);
}

#[tokio::test]
async fn a_pool_does_not_use_a_terminating_image_that_a_user_has_released() {
    let mut world = with_images();
    world.lead_with_image("debian").await;
    world.server.create(POOLS, pool("web", "debian"));
    world.advance(SECOND).await;
    world.request_deletion("debian").await;
    // Another finalizer keeps a part of its data.
    let hold = json!(["example.com/hold"]);
    world.server.edit(VOLUMES, "debian", |volume| volume["metadata"]["finalizers"] = hold.clone());
    world.server.edit(IMAGES, "debian", |image| {
        image["metadata"]["annotations"] = json!({ "vmpool.dev/force-release": "true" });
    });
    world.server.delete(MACHINES, "web-0");
    world.advance(2 * SECOND).await;
    assert_eq!(world.images_ready("web").unwrap()["reason"], "ImageTerminating");
    assert_eq!(world.server.all(MACHINES).len(), 1);
}
