//! I11: an image that is referenced is never deleted, and no wrapper gets a machine before its image was
//! ready.
//!
//! The check has its own idea of a reference, and shares no code with the controller. It looks at one change
//! after the other, in the order of the store.
//!
//! | reference | from | until |
//! | --- | --- | --- |
//! | a wrapper | its status has the UID of the image | it names another one, or is gone |
//! | a machine, a pool, a stored revision of a pool | a DataVolume template names an object of the image | the same |
//! | a clone | its source is the snapshot or the claim of the image | it ends, or is gone |
//!
//! Before the controller has added its finalizer to an image, references do not hold it. A reference holds
//! the image if it was stored before the deletion timestamp of the image. A bound wrapper always does. From
//! another namespace, a reference holds it only while a grant permits it, without interruption since before
//! that timestamp.
//!
//! No account of another namespace gets the permission to clone, and no clone is created there, before there
//! was a grant.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use vmpool_api::diskimage::{GROUP, WRAPPERS, annotations::FORCE_RELEASE, finalizers::IMAGE_PROTECTION};

use super::Violation;
use crate::object::JsonObject;

/// The groups and resources of the objects with the data of an image.
const DATA: [&str; 3] =
    ["datasources.cdi.kubevirt.io", "volumesnapshots.snapshot.storage.k8s.io", "datavolumes.cdi.kubevirt.io"];

/// One change of one object.
#[derive(Debug, Clone, Copy)]
pub struct ImageChange<'c> {
    /// The resource with its group, for example `vmdiskimages.vmpool.dev`.
    pub resource: &'c str,
    /// The object after the change; for a removal, its last state.
    pub object: &'c JsonObject,
    /// Whether the change removed the object from the store.
    pub removed: bool,
    /// The revision of the store.
    pub revision: u64,
}

/// Namespace and name of an image.
type Key = (String, String);
/// The namespace of images, and one that refers to them.
type Pair = (String, String);

#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
struct Image {
    key: Key,
    /// When its deletion timestamp was set, if it had the finalizer then.
    marked: Option<u64>,
    released: bool,
    /// Whether a user removes its finalizer.
    removed_by_user: bool,
    was_ready: bool,
    is_ready: bool,
    /// The UIDs of the objects with its data that its status has named.
    shown: BTreeSet<String>,
}

impl Image {
    /// The status of the image names these objects.
    fn showing(mut self, image: &JsonObject) -> Self {
        let fields = ["dataVolume", "claim", "snapshot", "dataSource"];
        let uids = fields.map(|field| image.text(&format!("/status/{field}/uid")).to_owned());
        self.shown.extend(uids.into_iter().filter(|uid| !uid.is_empty()));
        self
    }
}

/// Why an object holds an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Hold {
    /// It names the image since this revision.
    Since(u64),
    /// It is a bound wrapper.
    Bound,
}

/// An object that names images.
#[derive(Debug, Default)]
struct Referrer {
    /// For messages.
    title: String,
    namespace: String,
    /// The images that it names, by their names.
    named: BTreeMap<Key, u64>,
    /// On wrappers: the UID of the image in its status.
    mark: Option<(String, Hold)>,
    /// The service account on whose behalf KubeVirt clones. None on DataVolumes.
    account: Option<String>,
}

/// The images and what refers to them.
#[derive(Debug, Default)]
pub struct ImageReferences {
    images: BTreeMap<String, Image>,
    /// By UID.
    referrers: BTreeMap<String, Referrer>,
    /// The UIDs of the wrappers.
    wrappers: BTreeSet<String>,
    /// The namespaces that each grant names, by its UID.
    grants: BTreeMap<String, BTreeSet<Pair>>,
    /// Since when grants permit references, without interruption.
    granted: BTreeMap<Pair, u64>,
    /// What a grant has ever permitted.
    ever_granted: BTreeSet<Pair>,
    /// Objects with the data of an image that exist and are not being deleted, by UID.
    data: BTreeSet<String>,
    /// The claims that exist, by namespace and name.
    claims: BTreeSet<Key>,
}

impl ImageReferences {
    /// Reads a change. Returns the violations that it is. Deletions of the objects in `by_users` are not the
    /// controller's.
    pub fn observe(&mut self, change: ImageChange<'_>, by_users: &BTreeSet<String>) -> Vec<Violation> {
        let ImageChange { resource, object, removed, revision } = change;
        let mut found = Vec::new();
        match resource {
            "virtualmachines.kubevirt.io" => {
                found.extend(self.early_machine(change));
                let account = account_of(object.at("/spec/template/spec"));
                self.set_referrer(change, templates(object.at("/spec")), Some(account));
            }
            "virtualmachinepools.pool.kubevirt.io" => {
                let template = object.at("/spec/virtualMachineTemplate/spec");
                let account = account_of(&template["template"]["spec"]);
                self.set_referrer(change, templates(template), Some(account));
            }
            "controllerrevisions.apps" => {
                let template = object.at("/data/virtualMachineTemplate/spec");
                let account = account_of(&template["template"]["spec"]);
                self.set_referrer(change, templates(template), Some(account));
            }
            _ if resource == format!("{WRAPPERS}.{GROUP}") => self.set_wrapper(change),
            _ if resource == format!("vmdiskimagegrants.{GROUP}") => self.set_grant(change),
            "persistentvolumeclaims" => {
                let key = (object.namespace().to_owned(), object.name().to_owned());
                if removed {
                    self.claims.remove(&key)
                } else {
                    self.claims.insert(key)
                };
            }
            "rolebindings.rbac.authorization.k8s.io" if !removed => {
                let subjects = object.at("/subjects").as_array().into_iter().flatten();
                let namespaces = subjects.filter_map(|subject| subject["namespace"].as_str());
                let is_of_image = !object.at("/metadata/labels/vmpool.dev~1vmdiskimage-uid").is_null();
                let namespaces = namespaces.filter(|_| is_of_image);
                found.extend(namespaces.filter_map(|guest| {
                    self.ungranted(change, object.namespace(), guest, "the permission to clone is given")
                }));
            }
            _ if resource == format!("vmdiskimages.{GROUP}") => {
                found.extend(self.set_image(change));
            }
            _ if DATA.contains(&resource) => {
                if resource.starts_with("datavolumes.") {
                    let ended = ["Succeeded", "Failed"].contains(&object.phase());
                    let source = if ended { Vec::new() } else { vec![object.at("/spec")] };
                    let named = image_of(object.at("/spec"), object.namespace()).filter(|_| !removed);
                    if let Some((owner, _)) = named {
                        found.extend(self.ungranted(
                            change,
                            &owner,
                            object.namespace(),
                            "a clone is created",
                        ));
                    }
                    self.set_referrer(change, source, None);
                }
                if removed || object.is_terminating() {
                    let was_there = self.data.remove(object.uid());
                    // The objects of earlier versions have an owner instead.
                    let label = object.at("/metadata/labels/vmpool.dev~1vmdiskimage-uid");
                    let image = label.as_str().unwrap_or_else(|| object.owner_uid());
                    let is_of_user = by_users.contains(object.uid());
                    // An object of another namespace has no data of the image, whatever its owners say.
                    let is_beside =
                        self.images.get(image).is_some_and(|known| known.key.0 == object.namespace());
                    if was_there
                        && is_beside
                        && !is_of_user
                        && !self.is_unfinished(image, object)
                        && !self.has_lost_its_claim(resource, object)
                    {
                        let what = format!("{resource} {}", object.name());
                        found.extend(self.loss(image, &what, revision));
                    }
                } else {
                    self.data.insert(object.uid().to_owned());
                }
            }
            _ => {}
        }
        found
    }

    /// The objects that hold an image.
    pub fn holders(&self, image: &str) -> Vec<&str> {
        let Some(Image { key, marked, .. }) = self.images.get(image) else { return Vec::new() };
        let holds = |hold: Hold| match hold {
            Hold::Bound => true,
            Hold::Since(revision) => marked.is_none_or(|marked| revision < marked),
        };
        let permitted = self.referrers.values().filter(|referrer| {
            let since = self.granted.get(&(key.0.clone(), referrer.namespace.clone()));
            let in_time = |since: &u64| marked.is_none_or(|marked| *since < marked);
            referrer.namespace == key.0 || since.is_some_and(in_time)
        });
        let all = permitted.filter(|referrer| {
            let by_name = referrer.named.get(key).is_some_and(|since| holds(Hold::Since(*since)));
            by_name || referrer.mark.as_ref().is_some_and(|(uid, hold)| uid == image && holds(*hold))
        });
        all.map(|referrer| referrer.title.as_str()).collect()
    }

    /// A user removes the finalizer of an image: it is gone in spite of its references, and this is not the
    /// controller's doing.
    pub fn remove_by_user(&mut self, image: &str) {
        if let Some(image) = self.images.get_mut(image) {
            image.removed_by_user = true;
        }
    }

    /// Whether a user has released the image in spite of its references.
    pub fn is_released(&self, image: &str) -> bool {
        self.images.get(image).is_some_and(|image| image.released)
    }

    /// Whether a grant permits objects of a namespace to use the images of another one.
    pub fn is_granted(&self, images: &str, guests: &str) -> bool {
        images == guests || self.granted.contains_key(&(images.to_owned(), guests.to_owned()))
    }

    /// Whether an object of another namespace needs the permission to clone the image for this account, and a
    /// grant permits it.
    pub fn may_clone(&self, image: &str, guests: &str, account: &str) -> bool {
        let Some(Image { key, .. }) = self.images.get(image) else { return false };
        let mut referrers = self
            .referrers
            .values()
            .filter(|referrer| referrer.namespace == guests && referrer.account.as_deref() == Some(account));
        let names = |referrer: &Referrer| {
            let is_marked = referrer.mark.as_ref().is_some_and(|(uid, _)| uid == image);
            is_marked || referrer.named.contains_key(key)
        };
        self.is_granted(&key.0, guests) && referrers.any(names)
    }

    fn set_grant(&mut self, change: ImageChange<'_>) {
        let object = change.object;
        self.grants.remove(object.uid());
        // The finalizer of a grant is for namespaces that are deleted, and this check knows none.
        if !change.removed && !object.is_terminating() {
            let from = object.at("/spec/from").as_array().into_iter().flatten();
            let names = from.filter_map(|from| from["namespace"].as_str());
            let pairs = names.map(|guests| (object.namespace().to_owned(), guests.to_owned())).collect();
            self.grants.insert(object.uid().to_owned(), pairs);
        }
        let now: BTreeSet<Pair> = self.grants.values().flatten().cloned().collect();
        self.granted.retain(|pair, _| now.contains(pair));
        for pair in now {
            self.ever_granted.insert(pair.clone());
            self.granted.entry(pair).or_insert(change.revision);
        }
    }

    /// Something that needs a grant, before there was any.
    fn ungranted(
        &self,
        change: ImageChange<'_>,
        images: &str,
        guests: &str,
        what: &str,
    ) -> Option<Violation> {
        let pair = (images.to_owned(), guests.to_owned());
        (images != guests && !self.ever_granted.contains(&pair)).then(|| Violation {
            invariant: "I11",
            what: format!(
                "{what} at revision {} ({}), and no grant permits {guests} to use the images of {images}",
                change.revision,
                title(change)
            ),
        })
    }

    fn set_image(&mut self, change: ImageChange<'_>) -> Option<Violation> {
        let object = change.object;
        let known = self.images.get(object.uid());
        let finalizers = object.at("/metadata/finalizers").as_array();
        let is_protected = finalizers.is_some_and(|all| all.iter().any(|name| name == IMAGE_PROTECTION));
        let image = Image {
            key: (object.namespace().to_owned(), object.name().to_owned()),
            marked: known
                .and_then(|known| known.marked)
                .or((object.is_terminating() && is_protected).then_some(change.revision)),
            released: object.annotation(FORCE_RELEASE) == Some("true")
                || known.is_some_and(|known| known.removed_by_user),
            removed_by_user: known.is_some_and(|known| known.removed_by_user),
            was_ready: known.is_some_and(|known| known.was_ready) || object.phase() == "Ready",
            is_ready: object.phase() == "Ready",
            shown: known.map(|known| known.shown.clone()).unwrap_or_default(),
        }
        .showing(object);
        self.images.insert(object.uid().to_owned(), image);
        if !change.removed {
            return None;
        }
        let found = self.loss(object.uid(), "the image", change.revision);
        self.images.remove(object.uid());
        found
    }

    /// Whether the deletion of an object with the data of an image loses no data: no machine could clone the
    /// image yet, or it has never been ready with this object. The garbage collector deletes such objects
    /// that the image still owns, if the image is deleted in the foreground. The controller deletes those of
    /// an import that failed, for example because a user deleted its claim.
    fn is_unfinished(&self, image: &str, object: &JsonObject) -> bool {
        let mut owners = object.at("/metadata/ownerReferences").as_array().into_iter().flatten();
        let is_owned = owners.any(|owner| owner["uid"] == image);
        self.images.get(image).is_some_and(|image| {
            let is_shown = image.is_ready && image.shown.contains(object.uid());
            !image.was_ready || is_owned && !is_shown
        })
    }

    /// Whether the deleted object is a DataVolume without its claim: the controller deletes no claims, so a
    /// user has deleted the data before.
    fn has_lost_its_claim(&self, resource: &str, object: &JsonObject) -> bool {
        let key = (object.namespace().to_owned(), object.text("/status/claimName").to_owned());
        resource.starts_with("datavolumes.") && !key.1.is_empty() && !self.claims.contains(&key)
    }

    /// The image loses an object with its data, or itself. Before its deletion it may: its data is imported
    /// again.
    fn loss(&self, image: &str, what: &str, revision: u64) -> Option<Violation> {
        let Image { key: (_, name), marked, released, .. } = self.images.get(image)?;
        let holders = self.holders(image);
        (marked.is_some() && !released && !holders.is_empty()).then(|| Violation {
            invariant: "I11",
            what: format!(
                "{what} of image {name} was deleted at revision {revision}, and these refer to the image: {}",
                holders.join(", ")
            ),
        })
    }

    fn set_referrer(&mut self, change: ImageChange<'_>, sources: Vec<&Value>, account: Option<String>) {
        let uid = change.object.uid();
        let former = self.referrers.remove(uid).unwrap_or_default();
        let namespace = change.object.namespace();
        let names = sources.into_iter().filter_map(|source| image_of(source, namespace));
        let since = |key: Key| {
            let revision = former.named.get(&key).copied().unwrap_or(change.revision);
            (key, revision)
        };
        let named: BTreeMap<Key, u64> = names.map(since).collect();
        if !change.removed && !named.is_empty() {
            let title = title(change);
            let namespace = namespace.to_owned();
            let referrer = Referrer { title, namespace, named, mark: None, account };
            self.referrers.insert(uid.to_owned(), referrer);
        }
    }

    fn set_wrapper(&mut self, change: ImageChange<'_>) {
        let object = change.object;
        let former = self.referrers.remove(object.uid()).and_then(|former| former.mark);
        if change.removed {
            self.wrappers.remove(object.uid());
        } else {
            self.wrappers.insert(object.uid().to_owned());
        }
        let uid = object.text("/status/vmDiskImage/uid");
        if change.removed || uid.is_empty() {
            return;
        }
        let hold = match former {
            _ if object.at("/status/vmDiskImage/bound") == true => Hold::Bound,
            Some((known, Hold::Since(revision))) if known == uid => Hold::Since(revision),
            _ => Hold::Since(change.revision),
        };
        let mark = Some((uid.to_owned(), hold));
        let namespace = object.namespace().to_owned();
        let template = object.at("/spec/virtualMachineTemplate/spec/template/spec");
        let account = Some(account_of(template));
        let referrer = Referrer { title: title(change), namespace, named: BTreeMap::new(), mark, account };
        self.referrers.insert(object.uid().to_owned(), referrer);
    }

    /// A machine whose wrapper is not bound to an image that was ready. The garbage collector deletes one
    /// without its wrapper, whose create arrived late.
    fn early_machine(&self, change: ImageChange<'_>) -> Option<Violation> {
        let object = change.object;
        let is_new = !change.removed && !self.referrers.contains_key(object.uid());
        let owner = object.at("/metadata/ownerReferences/0");
        let is_wrapped = owner["controller"] == true
            && owner["apiVersion"].as_str().is_some_and(|version| version.starts_with(GROUP));
        if !is_new || !is_wrapped || !self.wrappers.contains(object.owner_uid()) {
            return None;
        }
        let wrapper = self.referrers.get(object.owner_uid());
        let image = wrapper.and_then(|wrapper| match &wrapper.mark {
            Some((image, Hold::Bound)) => Some(image),
            _ => None,
        });
        let was_ready = |image: &String| self.images.get(image).is_none_or(|image| image.was_ready);
        (!image.is_some_and(was_ready)).then(|| Violation {
            invariant: "I11",
            what: format!(
                "machine {} was created at revision {} before its wrapper was bound to a ready image",
                object.name(),
                change.revision
            ),
        })
    }
}

fn title(change: ImageChange<'_>) -> String {
    format!("{} {}", change.resource, change.object.name())
}

/// The service account of a machine with this spec of its instance. The objects of these tests mount none.
fn account_of(spec: &Value) -> String {
    spec["serviceAccountName"].as_str().unwrap_or("default").to_owned()
}

/// The specs of the DataVolume templates.
fn templates(spec: &Value) -> Vec<&Value> {
    spec["dataVolumeTemplates"].as_array().into_iter().flatten().map(|template| &template["spec"]).collect()
}

/// The image whose DataSource, snapshot or claim a DataVolume clones.
fn image_of(spec: &Value, namespace: &str) -> Option<Key> {
    let sources = [&spec["sourceRef"], &spec["source"]["snapshot"], &spec["source"]["pvc"]];
    let source = sources.into_iter().find(|source| source.is_object())?;
    let namespace = source["namespace"].as_str().unwrap_or(namespace);
    Some((namespace.to_owned(), source["name"].as_str()?.to_owned()))
}

#[cfg(test)]
mod tests;
