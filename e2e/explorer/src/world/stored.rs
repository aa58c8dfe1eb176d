//! A world that continues with what an earlier version has stored.

#[cfg(test)]
mod tests;

use serde_json::Value;
use vmpool_model::ApiError;
use vmpool_runtime::testing::Idle;

use super::{SimulatedWorld, SimulatedWorldOptions};

impl SimulatedWorld {
    /// A cluster with stored objects, whose processes start afterwards. It records a transcript.
    ///
    /// # Errors
    /// The kind of an object is not one of this platform.
    pub async fn from_stored_objects(
        options: SimulatedWorldOptions,
        idle: Idle,
        objects: &[Value],
    ) -> Result<Self, ApiError> {
        let mut world = Self::without_programs(options, idle, true);
        world.server.restore_objects(objects)?;
        world.create_initial_objects().await;
        world.start_programs();
        Ok(world)
    }
}
