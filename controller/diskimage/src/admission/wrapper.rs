//! The review of a wrapper.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use vmpool_api::diskimage::VirtualMachine;
use vmpool_api::diskimage::values::Mode;
use vmpool_decision::{AdmissionRead, AdmissionReads, Step};

use super::finding::{AdmissionFinding, ImageRule};
use super::reads::{FactReadError, FoundImage, find_grants, find_image, find_namespace_labels};
use super::review_image_url;
use crate::grants::{Grant, ReferrerNamespace, may_create, may_refer};
use crate::model::{ObjectKey, ReferrerKind};
use crate::read::wrapper::read_proposed_image;
use crate::source::SourceUrl;

/// What must be read to review a wrapper.
#[derive(Clone, Debug)]
pub(super) struct WrapperReview<'a> {
    /// The image that the wrapper names.
    pub(super) image: ObjectKey,
    namespace: &'a str,
    wrapper: &'a VirtualMachine,
    is_new: bool,
    allowed: &'a [SourceUrl],
}

/// What was read.
#[derive(Clone, Debug, Default)]
pub(super) struct WrapperReviewFacts {
    /// The grants of the namespace of the image.
    pub(super) grants: Vec<Grant>,
    /// The labels of the namespace of the wrapper.
    pub(super) labels: BTreeMap<String, String>,
    /// The image, if it exists.
    pub(super) image: Option<FoundImage>,
}

/// Reviews the creation of a wrapper, or its update. Rules about other objects apply only if the answer may
/// reveal facts of them; the controller enforces them, too.
///
/// # Errors
/// Objects were not read. If they cannot be read, the result is the inner error.
pub fn review_wrapper(
    namespace: &str,
    old: Option<&VirtualMachine>,
    new: &VirtualMachine,
    allowed: &[SourceUrl],
    reads: &AdmissionReads,
) -> Step<Result<Vec<AdmissionFinding>, FactReadError>, AdmissionRead> {
    match begin_wrapper_review(namespace, old, new, allowed) {
        Err(findings) => Ok(Ok(findings)),
        Ok(Some(review)) if reads.may_reveal() => {
            Ok(review.find_facts(reads)?.map(|facts| review.finish(&facts)))
        }
        Ok(_) => Ok(Ok(Vec::new())),
    }
}

/// Reviews the creation of a wrapper, or its update, as far as no other object is needed.
///
/// The reference to the image and the size of the disk do not change after the creation. So only a changed
/// template needs another review, for an image that it might create.
///
/// # Errors
/// The broken rules.
pub(super) fn begin_wrapper_review<'a>(
    namespace: &'a str,
    old: Option<&VirtualMachine>,
    new: &'a VirtualMachine,
    allowed: &'a [SourceUrl],
) -> Result<Option<WrapperReview<'a>>, Vec<AdmissionFinding>> {
    let template = new.spec.vm_disk_image_template.as_ref();
    let unchanged = old.is_some_and(|old| old.spec.vm_disk_image_template == new.spec.vm_disk_image_template);
    if new.metadata.deletion_timestamp.is_some() || unchanged {
        return Ok(None);
    }
    let field = "spec.vmDiskImageTemplate.url";
    let refused = template.and_then(|template| {
        review_image_url(field, &template.source_type, template.url.as_deref(), allowed)
    });
    if let Some(refused) = refused {
        return Err(vec![refused]);
    }
    let reference = &new.spec.vm_disk_image_ref;
    let image = ObjectKey::new(reference.namespace.as_deref().unwrap_or(namespace), &reference.name);
    Ok(Some(WrapperReview { image, namespace, wrapper: new, is_new: old.is_none(), allowed }))
}

/// Warns about passwords in clear text. They are in the API of wrappers, and all readers see them.
pub fn review_wrapper_passwords(
    old: Option<&VirtualMachine>,
    new: &VirtualMachine,
) -> Option<AdmissionFinding> {
    let unchanged = old.is_some_and(|old| old.spec.users == new.spec.users);
    let mut users = new.spec.users.iter().flatten();
    let at = users.position(|user| user.plain_text_passwd.is_some()).filter(|_| !unchanged)?;
    Some(AdmissionFinding::new(
        ImageRule::Password,
        &format!("spec.users[{at}].plain_text_passwd"),
        "all users who may read the wrapper or the machine can read the password".to_owned(),
        "use ssh_authorized_keys, hashed_passwd, or a cloud-init volume with a Secret",
    ))
}

impl WrapperReview<'_> {
    /// Whether the image is in another namespace than the wrapper, so that grants decide.
    fn crosses_namespaces(&self) -> bool {
        self.image.namespace != self.namespace
    }

    /// Whether the wrapper may refer to the image.
    fn is_permitted(&self, facts: &WrapperReviewFacts) -> bool {
        let origin = ReferrerNamespace { namespace: self.namespace, labels: Some(&facts.labels) };
        may_refer(&facts.grants, &self.image, origin, ReferrerKind::Wrapper)
    }

    /// What the review needs.
    ///
    /// Grants and labels are read first. Without a permission nothing else is read, so that also the duration
    /// of the review does not depend on the image.
    fn find_facts(
        &self,
        reads: &AdmissionReads,
    ) -> Step<Result<WrapperReviewFacts, FactReadError>, AdmissionRead> {
        let mut facts = WrapperReviewFacts::default();
        if self.crosses_namespaces() {
            (facts.grants, facts.labels) = match find_grants(&self.image.namespace, reads)? {
                Ok(grants) => match find_namespace_labels(self.namespace, reads)? {
                    Ok(labels) => (grants, labels),
                    Err(error) => return Ok(Err(error)),
                },
                Err(error) => return Ok(Err(error)),
            };
            if !self.is_permitted(&facts) {
                return Ok(Ok(facts));
            }
        }
        let image = find_image(&self.image, reads)?;
        Ok(image.map(|image| WrapperReviewFacts { image, ..facts }))
    }

    /// The broken rules. Without a grant the answer does not depend on the image.
    pub(super) fn finish(&self, facts: &WrapperReviewFacts) -> Vec<AdmissionFinding> {
        let origin = ReferrerNamespace { namespace: self.namespace, labels: Some(&facts.labels) };
        if !self.is_permitted(facts) {
            let reason = format!(
                "no VMDiskImageGrant in the namespace {} permits the reference",
                self.image.namespace
            );
            return vec![AdmissionFinding::new(
                ImageRule::Reference,
                "spec.vmDiskImageRef",
                reason,
                "ask the owner of that namespace for a grant",
            )];
        }
        match &facts.image {
            Some(image) if self.is_new => self.existing(image),
            Some(_) => Vec::new(),
            None => self.creation(facts, origin),
        }
    }

    fn existing(&self, image: &FoundImage) -> Vec<AdmissionFinding> {
        let mut findings = Vec::new();
        if image.deleting {
            let reason = format!("the image {} is being deleted", self.image);
            let way_out = "wait until it is gone, or use another image";
            findings.push(AdmissionFinding::new(
                ImageRule::Terminating,
                "spec.vmDiskImageRef",
                reason,
                way_out,
            ));
        }
        let wanted = self.wrapper.spec.resources.as_ref().and_then(|resources| resources.disk_size.as_ref());
        if let (Some(wanted), Some(needed)) = (wanted, &image.disk_size)
            && wanted.compare(needed).is_ok_and(Ordering::is_lt)
        {
            let reason =
                format!("{} is smaller than the image, which has {}", wanted.as_str(), needed.as_str());
            let way_out = "use at least the size of the image";
            findings.push(AdmissionFinding::new(
                ImageRule::DiskSize,
                "spec.resources.diskSize",
                reason,
                way_out,
            ));
        }
        findings
    }

    fn creation(&self, facts: &WrapperReviewFacts, origin: ReferrerNamespace<'_>) -> Vec<AdmissionFinding> {
        let spec = &self.wrapper.spec;
        let creates = spec.mode.as_deref() != Some(&Mode::FailIfNotExist.to_string());
        let Some(proposed) = read_proposed_image(self.wrapper).filter(|_| creates) else {
            return Vec::new();
        };
        let refused = may_create(&facts.grants, &self.image, origin, &proposed, self.allowed).err();
        let finding = refused.map(|refused| {
            let way_out = "ask the owner of that namespace for a grant, or let it create the image";
            AdmissionFinding::new(ImageRule::Create, "spec.vmDiskImageTemplate", refused.to_string(), way_out)
        });
        finding.into_iter().collect()
    }
}
