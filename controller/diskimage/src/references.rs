//! Which objects refer to which images.
//!
//! The objects of an image have its name, so a reference to its DataSource, snapshot or claim names the
//! image. The [`ReferrerIndex`] keeps the referrers by the images that they name, so that counting does not
//! read every machine of the cluster. A count is always made from the referrers, never by adding and
//! subtracting. A reference to a DataSource that leads to an image under another name counts for that image,
//! too ([`crate::aliases`]).

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use crate::aliases::{Aliases, remove_from_set};
use crate::clone_permission::Account;
use crate::grants::{Grant, ReferrerNamespace, may_refer};
use crate::model::{
    DiskImage, ImageReference, NamedSource, ObjectKey, ReferenceCounts, ReferenceList, ReferrerKind,
};

#[cfg(test)]
mod tests;

/// The image that a wrapper holds on to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageMark {
    /// Namespace and name of the image.
    pub image: ObjectKey,
    /// UID of the image.
    pub uid: String,
}

/// The owner of a referrer, which has the kind that owners of such objects have.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ReferrerOwner {
    /// Namespace and name. The namespace is that of the referrer.
    pub key: ObjectKey,
    /// The UID.
    pub uid: String,
}

/// An object that may refer to images.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Referrer {
    /// The kind.
    pub kind: ReferrerKind,
    /// Namespace and name.
    pub key: ObjectKey,
    /// The UID.
    pub uid: String,
    /// When the API server created it.
    pub created: Option<Timestamp>,
    /// The images that its spec names. A wrapper names one; the others name the sources of their DataVolumes.
    pub images: BTreeSet<ObjectKey>,
    /// Those of them that it names as DataSources, which may lead to other images.
    pub data_sources: BTreeSet<ObjectKey>,
    /// On wrappers: the image in its status.
    pub mark: Option<ImageMark>,
    /// The wrapper that controls a machine, the machine that owns a DataVolume, or the pool of a stored
    /// revision.
    pub owner: Option<ReferrerOwner>,
    /// On DataVolumes: whether the clone has ended.
    pub finished: bool,
    /// The service account on whose behalf KubeVirt clones. None on DataVolumes: their creators have their
    /// own permission.
    pub service_account: Option<String>,
}

impl Referrer {
    /// The referrer as the owner of others.
    fn as_owner(&self) -> ReferrerOwner {
        ReferrerOwner { key: self.key.clone(), uid: self.uid.clone() }
    }

    fn names(&self) -> impl Iterator<Item = &ObjectKey> {
        self.images.iter().chain(self.mark.iter().map(|mark| &mark.image))
    }
}

/// What the referrers of an image say about it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CountedReferences {
    /// The references that count.
    pub references: ReferenceList,
    /// How many referrers no grant permits, by their namespaces.
    pub denied: BTreeMap<String, usize>,
    /// The service accounts of other namespaces that may clone the image.
    pub accounts: BTreeSet<Account>,
}

/// The referrers, by their UID and by the images that they name.
#[derive(Clone, Debug, Default)]
pub struct ReferrerIndex {
    referrers: BTreeMap<String, Referrer>,
    by_image: BTreeMap<ObjectKey, BTreeSet<String>>,
    by_owner: BTreeMap<ReferrerOwner, BTreeSet<String>>,
    aliases: Aliases,
}

impl ReferrerIndex {
    /// The index of a list.
    pub fn new(referrers: impl IntoIterator<Item = Referrer>) -> Self {
        let mut index = Self::default();
        for referrer in referrers {
            index.update(referrer);
        }
        index
    }

    /// Adds or replaces a referrer. Returns the images whose count may change: those that it names now, and
    /// those that it named before.
    pub fn update(&mut self, referrer: Referrer) -> BTreeSet<ObjectKey> {
        let mut affected = self.remove(&referrer.uid);
        affected.extend(self.concerned(&referrer));
        for image in referrer.names() {
            self.by_image.entry(image.clone()).or_default().insert(referrer.uid.clone());
        }
        if let Some(owner) = &referrer.owner {
            self.by_owner.entry(owner.clone()).or_default().insert(referrer.uid.clone());
        }
        self.add_owned(&referrer.as_owner(), &mut affected);
        self.referrers.insert(referrer.uid.clone(), referrer);
        affected
    }

    /// Removes a referrer. Returns the images whose count may change.
    pub fn remove(&mut self, uid: &str) -> BTreeSet<ObjectKey> {
        let Some(referrer) = self.referrers.remove(uid) else { return BTreeSet::new() };
        let mut affected: BTreeSet<ObjectKey> = self.concerned(&referrer).collect();
        for image in referrer.names() {
            remove_from_set(&mut self.by_image, image, uid);
        }
        if let Some(owner) = &referrer.owner {
            remove_from_set(&mut self.by_owner, owner, uid);
        }
        self.add_owned(&referrer.as_owner(), &mut affected);
        affected
    }

    /// The count of an owned object depends on whether its owner counts.
    fn add_owned(&self, owner: &ReferrerOwner, affected: &mut BTreeSet<ObjectKey>) {
        let owned = self.by_owner.get(owner).into_iter().flatten();
        let owned = owned.filter_map(|uid| self.referrers.get(uid));
        affected.extend(owned.flat_map(|referrer| self.concerned(referrer)));
    }

    /// The images that a referrer names, and those that its DataSources lead to.
    fn concerned<'a>(&'a self, referrer: &'a Referrer) -> impl Iterator<Item = ObjectKey> + 'a {
        let behind = referrer.data_sources.iter().flat_map(|source| self.aliases.resolve(source));
        referrer.names().chain(behind.map(|source| &source.key)).cloned()
    }

    /// Sets what a DataSource points to; nothing if it is gone. Returns the images whose count may change.
    pub fn set_source(&mut self, source: &ObjectKey, targets: BTreeSet<NamedSource>) -> BTreeSet<ObjectKey> {
        let mut affected = self.images_behind(source);
        self.aliases.set(source, targets);
        affected.extend(self.images_behind(source));
        affected
    }

    fn images_behind(&self, source: &ObjectKey) -> BTreeSet<ObjectKey> {
        self.aliases.resolve(source).into_iter().map(|target| target.key.clone()).collect()
    }

    /// What DataSources lead to.
    pub fn aliases(&self) -> &Aliases {
        &self.aliases
    }

    /// The UIDs of the objects that name an image, directly or through a DataSource.
    fn named_by(&self, image: &ObjectKey) -> BTreeSet<&String> {
        let direct = self.by_image.get(image).into_iter().flatten();
        let aliases = self.aliases.leading_to(image);
        let indirect = aliases.into_iter().filter_map(|alias| self.by_image.get(alias)).flatten();
        direct.chain(indirect).collect()
    }

    /// Whether a referrer names an image, directly or through a DataSource.
    fn refers(&self, referrer: &Referrer, image: &ObjectKey) -> bool {
        let leads = |source: &ObjectKey| self.aliases.leads_to(source, image);
        referrer.images.contains(image) || referrer.data_sources.iter().any(leads)
    }

    /// The objects of this kind that name an image, whether they count or not.
    pub fn referrers(&self, image: &ObjectKey, kind: ReferrerKind) -> impl Iterator<Item = &ObjectKey> {
        let named = self.by_image.get(image).into_iter().flatten();
        let named = named.filter_map(|uid| self.referrers.get(uid));
        named.filter(move |referrer| referrer.kind == kind).map(|referrer| &referrer.key)
    }

    /// Whether a pool referred to an image at this time already: one of its stored revisions is at least that
    /// old and names the image. The pool itself may name the image only since a later update.
    pub fn had_reference(&self, pool: &str, namespace: &str, image: &ObjectKey, at: Timestamp) -> bool {
        let first = ReferrerOwner { key: ObjectKey::new(namespace, ""), uid: String::new() };
        let owners = self.by_owner.range(first..).take_while(|(owner, _)| owner.key.namespace == namespace);
        let stored = owners.filter(|(owner, _)| owner.uid == pool).flat_map(|(_, stored)| stored);
        let stored = stored.filter_map(|uid| self.referrers.get(uid));
        let mut revisions = stored.filter(|referrer| referrer.kind == ReferrerKind::Pool);
        revisions.any(|revision| {
            self.refers(revision, image) && revision.created.is_some_and(|created| created <= at)
        })
    }

    /// Counts the references to an image. `labels` are those of all namespaces.
    pub fn count(
        &self,
        image: &DiskImage,
        grants: &[Grant],
        labels: &BTreeMap<String, BTreeMap<String, String>>,
    ) -> CountedReferences {
        let mut counted = CountedReferences::default();
        let named = self.named_by(&image.key);
        let mut pools = BTreeSet::new();
        for referrer in named.into_iter().filter_map(|uid| self.referrers.get(uid)) {
            if !self.counts(referrer, image) {
                continue;
            }
            let namespace = &referrer.key.namespace;
            let origin = ReferrerNamespace { namespace, labels: labels.get(namespace) };
            if !may_refer(grants, &image.key, origin, referrer.kind) {
                *counted.denied.entry(namespace.clone()).or_default() += 1;
                continue;
            }
            if let Some(name) =
                referrer.service_account.as_ref().filter(|_| *namespace != image.key.namespace)
            {
                counted.accounts.insert(Account { namespace: namespace.clone(), name: name.clone() });
            }
            let mut uid = &referrer.uid;
            if referrer.kind == ReferrerKind::Pool {
                // A stored revision has the pool as its owner.
                uid = referrer.owner.as_ref().map_or(uid, |owner| &owner.uid);
                if !pools.insert((&referrer.key, uid)) {
                    continue;
                }
            }
            count_reference(&mut counted.references.counts, referrer.kind);
            let reference =
                ImageReference { key: referrer.key.clone(), kind: referrer.kind, uid: uid.clone() };
            counted.references.list.push(reference);
        }
        counted.references.list.sort();
        counted
    }

    fn counts(&self, referrer: &Referrer, image: &DiskImage) -> bool {
        let names = self.refers(referrer, &image.key);
        match referrer.kind {
            ReferrerKind::Wrapper => {
                names && referrer.mark.as_ref().is_some_and(|mark| mark.uid == image.uid)
            }
            // Its wrapper counts in its place. The machine counts if the wrapper is gone or does not count.
            ReferrerKind::Machine => names && !self.has_counted_wrapper(referrer, image),
            ReferrerKind::Pool => names,
            ReferrerKind::DataVolume => {
                let machine = self.owner(referrer, ReferrerKind::Machine);
                let covers =
                    |machine| self.counts(machine, image) || self.has_counted_wrapper(machine, image);
                names && !referrer.finished && !machine.is_some_and(covers)
            }
        }
    }

    fn has_counted_wrapper(&self, machine: &Referrer, image: &DiskImage) -> bool {
        let wrapper = self.owner(machine, ReferrerKind::Wrapper);
        wrapper.is_some_and(|wrapper| self.counts(wrapper, image))
    }

    /// The owner, if it has the kind that owners of such objects have. Users can write owner references of
    /// any kind, also ones that form a circle.
    fn owner(&self, referrer: &Referrer, kind: ReferrerKind) -> Option<&Referrer> {
        let named = referrer.owner.as_ref()?;
        let owner = self.referrers.get(&named.uid)?;
        (owner.kind == kind && owner.key == named.key).then_some(owner)
    }
}

fn count_reference(counts: &mut ReferenceCounts, kind: ReferrerKind) {
    match kind {
        ReferrerKind::Wrapper | ReferrerKind::Machine => counts.machines += 1,
        ReferrerKind::Pool => counts.pools += 1,
        ReferrerKind::DataVolume => counts.clones += 1,
    }
}
