//! The platform simulator: the simulator's pure core, driven by the model's history.

use std::time::Duration;

use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use vmpool_model::{ApiError, Call, Change, ChangeKind, PatchKind, Server, Verb};
use vmpool_simulator::duration::Delay;
use vmpool_simulator::objects::{
    AttachmentView, DiskView, Id, ImageView, Key, Kind, MachineView, OperationView, StoredAttachment,
    StoredDisk, StoredImage, StoredMachine, StoredOperation,
};
use vmpool_simulator::world::{Action, Event, Object, Outcome, Settings, Violation, World, Write};

/// The simulator's user name.
pub const NAME: &str = "platform";

/// The simulated kinds and their resources. Pods are left out, because no component here reads them.
const KINDS: [(Kind, &str); 5] = [
    (Kind::Machine, "virtualmachines"),
    (Kind::Disk, "virtualdisks"),
    (Kind::ClusterImage, "clustervirtualimages"),
    (Kind::Operation, "virtualmachineoperations"),
    (Kind::Attachment, "virtualmachineblockdeviceattachments"),
];

/// The simulated platform.
pub struct Platform {
    server: Server,
    world: World,
    seen: usize,
    violations: Vec<Violation>,
}

impl Platform {
    /// A platform whose delays are at most these, in milliseconds.
    pub fn new(server: &Server, seed: u64, start: u64, evaluation: u64) -> Self {
        let delay = |milliseconds| Delay::After(Duration::from_millis(milliseconds));
        let settings = Settings {
            start_delay: delay(start),
            stop_delay: delay(start),
            provisioning_delay: delay(start / 2),
            evaluation_delay: delay(evaluation),
            hot_plug_delay: delay(evaluation),
            nodes: vec!["node-1".to_owned()],
            pods: false,
            seed,
        };
        let mut world = World::new(settings);
        world.observe(Event::Synced, server.now());
        Self { server: server.clone(), world, seen: 0, violations: Vec::new() }
    }

    /// Reads the new changes and performs the due actions. Returns whether it did anything.
    pub async fn step(&mut self) -> bool {
        let mut acted = false;
        loop {
            let now = self.server.now();
            let news = self.server.changes_since(self.seen);
            self.seen += news.len();
            for change in &news {
                if let Some(event) = event(change) {
                    self.world.observe(event, now);
                }
            }
            let actions = self.world.step(now);
            if actions.is_empty() {
                return acted;
            }
            acted = true;
            for action in actions {
                match action {
                    Action::Report(violation) => self.violations.push(violation),
                    Action::Write(id, write) => {
                        let outcome = self.write(&id, write).await;
                        self.world.observe(Event::Written(id, outcome), now);
                    }
                }
            }
        }
    }

    /// When the next action is due.
    pub fn next_due(&self) -> Option<Timestamp> {
        self.world.next_due()
    }

    /// The moments at which two machines had mounted the same disk.
    pub fn violations(&self) -> &[Violation] {
        &self.violations
    }

    async fn write(&self, id: &Id, write: Write) -> Outcome {
        let Some((_, resource)) = KINDS.iter().find(|(kind, _)| *kind == id.kind) else {
            return Outcome::Failed("the model has no such kind".to_owned());
        };
        let (verb, subresource, body) = match write {
            Write::Patch(body) => (Verb::Patch(PatchKind::Merge), "", body),
            Write::PatchStatus(body) => (Verb::Patch(PatchKind::Merge), "status", body),
            Write::Create(body) => (Verb::Create, "", body),
            Write::Delete(uid) => (Verb::Delete, "", json!({ "preconditions": { "uid": &*uid } })),
        };
        let call = Call {
            sender: NAME.to_owned(),
            verb,
            group: "virtualization.deckhouse.io".to_owned(),
            version: "v1alpha2".to_owned(),
            resource: (*resource).to_owned(),
            namespace: id.key.namespace.to_string(),
            name: id.key.name.to_string(),
            subresource: subresource.to_owned(),
            query: Vec::new(),
            body,
        };
        match self.server.handle(&call).await {
            Ok((_, object)) => Outcome::Done(read(id.kind, &object)),
            Err(ApiError { reason, .. }) if reason == "NotFound" => Outcome::NotFound,
            Err(ApiError { reason, .. }) if reason == "Conflict" => Outcome::Conflict,
            Err(refusal) => Outcome::Failed(refusal.message),
        }
    }
}

/// The platform's event for a change, if there is one.
fn event(change: &Change) -> Option<Event> {
    let (kind, _) = KINDS.iter().find(|(_, plural)| {
        change.key.resource.strip_prefix(plural).is_some_and(|rest| rest.starts_with('.'))
    })?;
    let key = Key { namespace: change.key.namespace.clone(), name: change.key.name.clone() };
    match change.kind {
        ChangeKind::Deleted => Some(Event::Gone(Id::new(*kind, key))),
        ChangeKind::Added | ChangeKind::Modified => Some(Event::Seen(key, read(*kind, &change.object)?)),
    }
}

fn read(kind: Kind, object: &Value) -> Option<Object> {
    fn decode<T: DeserializeOwned>(object: &Value) -> Option<T> {
        T::deserialize(object).ok()
    }
    match kind {
        Kind::Machine => {
            decode::<StoredMachine>(object).map(|stored| Object::Machine(Box::new(MachineView::read(stored))))
        }
        Kind::Disk => {
            decode::<StoredDisk>(object).map(|stored| Object::Disk(Box::new(DiskView::read(stored))))
        }
        Kind::Image | Kind::ClusterImage => {
            decode::<StoredImage>(object).map(|stored| Object::Image(kind, ImageView::read(&stored)))
        }
        Kind::Operation => {
            decode::<StoredOperation>(object).map(|stored| Object::Operation(OperationView::read(stored)))
        }
        Kind::Attachment => {
            decode::<StoredAttachment>(object).map(|stored| Object::Attachment(AttachmentView::read(stored)))
        }
        Kind::Pod => None,
    }
}

/// A cluster image from which machines can boot.
pub fn image() -> Value {
    json!({
        "apiVersion": "virtualization.deckhouse.io/v1alpha2", "kind": "ClusterVirtualImage",
        "metadata": { "name": "alpine" },
        "spec": { "dataSource": { "type": "HTTP", "http": { "url": "https://images.example/alpine.qcow2" } } },
    })
}
