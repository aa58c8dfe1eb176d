//! Which objects of other namespaces may use an image, and which images a wrapper may create in another
//! namespace.
//!
//! The namespace of the image consents, with a VMDiskImageGrant. Several grants add up, and none forbids
//! anything. For the creation of an image, one grant must permit all of it: with the URL of one grant and the
//! Secret of another one, a wrapper could send the Secret to a server that its owner did not intend.
//!
//! A grant that a user deletes ends at once. Kubernetes also deletes the grants of a namespace that is
//! deleted, which is no decision about the references: until the last image of the namespace is gone, a
//! finalizer keeps them in effect.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use jiff::Timestamp;
use vmpool_api::Quantity;
use vmpool_api::diskimage::values::SourceType;

use crate::model::{ObjectKey, ReferrerKind};
use crate::source::{SourceUrl, UrlError, check_source_url};

#[cfg(test)]
mod tests;

/// Kind of a referrer, as grants name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum GrantKind {
    /// Machines and wrappers.
    VirtualMachine,
    /// Pools.
    VirtualMachinePool,
}

/// One requirement of a label selector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NamespaceRequirement {
    /// The label has one of the values.
    In(String, Vec<String>),
    /// The label is absent or has none of the values.
    NotIn(String, Vec<String>),
    /// The label exists.
    Exists(String),
    /// The label does not exist.
    DoesNotExist(String),
    /// A requirement that cannot be read. No namespace meets it.
    Unreadable,
}

impl NamespaceRequirement {
    fn holds(&self, labels: &BTreeMap<String, String>) -> bool {
        let is_one_of =
            |key: &String, values: &Vec<String>| labels.get(key).is_some_and(|value| values.contains(value));
        match self {
            Self::In(key, values) => is_one_of(key, values),
            Self::NotIn(key, values) => !is_one_of(key, values),
            Self::Exists(key) => labels.contains_key(key),
            Self::DoesNotExist(key) => !labels.contains_key(key),
            Self::Unreadable => false,
        }
    }
}

/// The namespaces that an entry of a grant means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GrantedNamespaces {
    /// One, by name.
    Name(String),
    /// Those with these labels.
    Selected(Vec<NamespaceRequirement>),
    /// None, because the entry names both or neither.
    None,
}

/// One entry of `spec.from`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grantee {
    /// The namespaces.
    pub namespaces: GrantedNamespaces,
    /// The kinds. Empty means all.
    pub kinds: Vec<GrantKind>,
}

/// `spec.create` with `allowed: true`.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct ImageCreationGrant {
    /// The URLs at which the URL of an image must begin. Entries that cannot be read are left out.
    pub urls: Vec<SourceUrl>,
    /// The Secrets that an image may name.
    pub secrets: Vec<String>,
    /// The StorageClasses that an image may name. Without an entry, none: the image has the default class.
    pub storage_classes: Vec<String>,
    /// The largest disk. `Some(None)` is a limit that cannot be read: no disk is small enough.
    pub max_disk_size: Option<Option<Quantity>>,
}

/// A grant in the namespace of images.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Its namespace.
    pub namespace: String,
    /// Who may use the images.
    pub from: Vec<Grantee>,
    /// The images. Empty means all of the namespace.
    pub to: Vec<String>,
    /// What may be created.
    pub create: Option<ImageCreationGrant>,
    /// When its deletion was requested.
    pub deleted: Option<Timestamp>,
    /// Whether it has our finalizer.
    pub protected: bool,
}

/// The namespace of a referrer.
#[derive(Clone, Copy, Debug)]
pub struct ReferrerNamespace<'a> {
    /// Its name.
    pub namespace: &'a str,
    /// Its labels. None if they are not known: no selector then selects the namespace, also none that an
    /// absence satisfies.
    pub labels: Option<&'a BTreeMap<String, String>>,
}

impl Grant {
    /// Whether the grant permits anything. `terminating` is when the deletion of its namespace was requested.
    ///
    /// A user may have deleted it before, and then the namespace. It does not come into effect again.
    pub fn is_in_effect(&self, terminating: Option<Timestamp>) -> bool {
        self.deleted.is_none_or(|deleted| self.protected && terminating.is_some_and(|since| deleted >= since))
    }

    /// Whether both permit the same. The finalizer of a grant that is not deleted permits nothing.
    pub fn permits_as(&self, other: &Self) -> bool {
        let protected = if self.deleted.is_none() { other.protected } else { self.protected };
        Self { protected, ..self.clone() } == *other
    }

    fn covers(&self, image: &ObjectKey, origin: ReferrerNamespace<'_>, kinds: &[GrantKind]) -> bool {
        let to = self.to.is_empty() || self.to.contains(&image.name);
        self.namespace == image.namespace && to && self.from.iter().any(|from| from.covers(origin, kinds))
    }
}

impl Grantee {
    fn covers(&self, origin: ReferrerNamespace<'_>, kinds: &[GrantKind]) -> bool {
        let kind = self.kinds.is_empty() || self.kinds.iter().any(|kind| kinds.contains(kind));
        let namespace = match &self.namespaces {
            GrantedNamespaces::Name(name) => name == origin.namespace,
            GrantedNamespaces::Selected(requirements) => {
                origin.labels.is_some_and(|labels| requirements.iter().all(|each| each.holds(labels)))
            }
            GrantedNamespaces::None => false,
        };
        kind && namespace
    }
}

/// Whether an object of this namespace may refer to an image. In the namespace of the image, every object
/// may.
///
/// An unfinished clone without a machine may belong to a machine or to a pool, so a grant for either kind
/// permits it.
pub fn may_refer(
    grants: &[Grant],
    image: &ObjectKey,
    origin: ReferrerNamespace<'_>,
    kind: ReferrerKind,
) -> bool {
    let kinds: &[GrantKind] = match kind {
        ReferrerKind::Wrapper | ReferrerKind::Machine => &[GrantKind::VirtualMachine],
        ReferrerKind::Pool => &[GrantKind::VirtualMachinePool],
        ReferrerKind::DataVolume => &[GrantKind::VirtualMachine, GrantKind::VirtualMachinePool],
    };
    image.namespace == origin.namespace || grants.iter().any(|grant| grant.covers(image, origin, kinds))
}

/// What decides about the finalizer of a grant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GrantContext {
    /// Whether the controller serves references from other namespaces.
    pub serves_others: bool,
    /// When the deletion of its namespace was requested.
    pub terminating: Option<Timestamp>,
    /// Whether the namespace contains images.
    pub has_images: bool,
}

/// What a pass of a grant does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GrantAction {
    /// Nothing.
    None,
    /// It adds the finalizer.
    Protect,
    /// It removes the finalizer.
    Release,
    /// It waits until the images of the namespace are gone.
    Hold,
}

/// Plans a pass of a grant.
///
/// An image that no object refers to does not wait, so images are left only if references, or their data,
/// keep them.
pub fn plan_grant(grant: &Grant, surroundings: GrantContext) -> GrantAction {
    let GrantContext { serves_others, terminating, has_images } = surroundings;
    match (grant.deleted, grant.protected) {
        (None, false) if serves_others => GrantAction::Protect,
        (Some(_), true) if has_images && grant.is_in_effect(terminating) => GrantAction::Hold,
        (Some(_), true) => GrantAction::Release,
        _ => GrantAction::None,
    }
}

/// An image that a wrapper would create.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProposedImage<'a> {
    /// Kind of the source.
    pub source: SourceType,
    /// The URL, if it has one.
    pub url: Option<&'a str>,
    /// The Secrets that it names.
    pub secrets: Vec<&'a str>,
    /// The StorageClass, if it names one.
    pub storage_class: Option<&'a str>,
    /// The size of the disk.
    pub disk_size: &'a Quantity,
    /// The first field with a value that no grant can permit.
    pub ungrantable: Option<&'static str>,
}

/// Why a wrapper may not create an image.
///
/// The texts are the same whether the image, the Secret or the class exists, so that nothing can be found out
/// by trying.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ImageCreationRefusal {
    /// The URL is refused in every namespace.
    #[error(transparent)]
    Url(#[from] UrlError),
    /// No grant permits it.
    #[error(
        "no VMDiskImageGrant in the namespace {0} permits to create this image from here; its url, secretRef, storageClass \
         and diskSize must all be permitted by one grant"
    )]
    NoGrant(String),
    /// The image has a field that grants do not limit.
    #[error(
        "{0} is possible only in an image that its own namespace creates, because no VMDiskImageGrant can permit it; ask the \
         owner of that namespace to create the image"
    )]
    Ungrantable(&'static str),
}

/// Whether a wrapper of this namespace may create an image.
///
/// # Errors
/// If the URL is refused everywhere, if a field has a value that no grant can permit, or if no single grant
/// permits the creation with all four limits.
pub fn may_create(
    grants: &[Grant],
    image: &ObjectKey,
    origin: ReferrerNamespace<'_>,
    proposed: &ProposedImage<'_>,
    allowed_urls: &[SourceUrl],
) -> Result<(), ImageCreationRefusal> {
    if let Some(url) = proposed.url {
        check_source_url(proposed.source, url, allowed_urls)?;
    }
    if image.namespace == origin.namespace {
        return Ok(());
    }
    if let Some(field) = proposed.ungrantable {
        return Err(ImageCreationRefusal::Ungrantable(field));
    }
    let permits = |grant: &Grant| {
        grant.covers(image, origin, &[GrantKind::VirtualMachine])
            && grant.create.as_ref().is_some_and(|create| create.permits(proposed))
    };
    if grants.iter().any(permits) {
        Ok(())
    } else {
        Err(ImageCreationRefusal::NoGrant(image.namespace.clone()))
    }
}

impl ImageCreationGrant {
    fn permits(&self, proposed: &ProposedImage<'_>) -> bool {
        let url = match proposed.url {
            // A blank disk is not imported from anywhere.
            None => true,
            Some(text) => {
                SourceUrl::parse(text).is_ok_and(|url| self.urls.iter().any(|prefix| url.begins_with(prefix)))
            }
        };
        let contains = |list: &[String], name: Option<&str>| {
            name.is_none_or(|name| list.iter().any(|entry| entry == name))
        };
        let size = match &self.max_disk_size {
            None => true,
            Some(None) => false,
            Some(Some(limit)) => proposed.disk_size.compare(limit).is_ok_and(Ordering::is_le),
        };
        url && size
            && proposed.secrets.iter().all(|secret| contains(&self.secrets, Some(secret)))
            && contains(&self.storage_classes, proposed.storage_class)
    }
}
