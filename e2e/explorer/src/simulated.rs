//! What the pure cores of the simulated platforms have in common.

use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde_json::Value;
use vmpool_model::{ApiError, Call, ObjectChange, Verb};
use vmpool_simulator::world::DiskViolation;

/// The simulator's user name.
pub(crate) const NAME: &str = "platform";

/// The pure core of a simulated platform.
pub(crate) trait Simulated: Send {
    /// Reads a change of a stored object.
    fn observe(&mut self, change: &ObjectChange, now: Timestamp);

    /// The requests and the violations that are due.
    fn step(&mut self, now: Timestamp) -> (Vec<Call>, Vec<DiskViolation>);

    /// Reads the response to a request.
    fn written(&mut self, call: &Call, response: Result<Value, ApiError>, now: Timestamp);

    /// When the next request is due.
    fn next_due(&self) -> Option<Timestamp>;
}

/// A request of the platform.
pub(crate) fn simulator_call(
    verb: Verb,
    (group, version, resource): (&str, &str, &str),
    (namespace, name): (&str, &str),
    subresource: &str,
    body: Value,
) -> Call {
    Call {
        sender: NAME.to_owned(),
        verb,
        group: group.to_owned(),
        version: version.to_owned(),
        resource: resource.to_owned(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        subresource: subresource.to_owned(),
        query: Vec::new(),
        body,
    }
}

/// An object as the simulator decodes it.
pub(crate) fn decode_object<T: DeserializeOwned>(object: &Value) -> Option<T> {
    T::deserialize(object).ok()
}
