//! What the caches show of one wrapper.

use std::sync::Arc;

use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use vmpool_api::diskimage::{API_VERSION, VirtualMachine, VmDiskImage, WRAPPER_KIND};
use vmpool_api::kubevirt::DataVolume;
use vmpool_decision::Step;
use vmpool_diskimage::grants::{ImageCreationRefusal, may_create, may_refer};
use vmpool_diskimage::model::{FoundObject, ObjectKey, ReferrerKind};
use vmpool_diskimage::read::backing;
use vmpool_diskimage::read::wrapper as read;
use vmpool_diskimage::wrapper::{
    self, DiskNameOwner, Wrapper, WrapperDisk, WrapperImage, WrapperMachine, WrapperPassInput, WrapperPlan,
    WrapperRead, objects,
};
use vmpool_engine::ObjectId;
use vmpool_kit::events::EventSubject;

use super::context::ImageContext;
use super::live::ImageReadError;
use super::table::ObjectOrigin;

/// What one pass of a wrapper knows.
pub(super) struct WrapperFacts {
    pub(super) object: Arc<VirtualMachine>,
    pub(super) wrapper: Wrapper,
    pub(super) image: Option<WrapperImage>,
    pub(super) image_is_live: bool,
    pub(super) may_refer: bool,
    pub(super) may_create: Result<(), ImageCreationRefusal>,
    pub(super) machine: FoundObject<WrapperMachine>,
    pub(super) disk: Option<WrapperDisk>,
    pub(super) disk_name: DiskNameOwner,
    pub(super) disk_name_is_live: bool,
}

impl ImageContext {
    /// What the caches show of a wrapper; `None` if it does not exist.
    pub(super) fn wrapper_facts(&self, key: &ObjectKey) -> Option<WrapperFacts> {
        let store = self.store.lock();
        let object = store.wrapped.as_ref()?.wrappers.get(key)?.clone();
        let wrapper = read::read_wrapper(&object);
        let image = store.images.get(&wrapper.image).map(|image| read::read_wrapper_image(image));
        let (may_refer, may_create) = store.with_grants(&wrapper.image, &key.namespace, |grants, origin| {
            let may_refer = may_refer(grants, &wrapper.image, origin, ReferrerKind::Wrapper);
            let allowed = &self.settings.allowed_urls;
            let may_create = read::read_proposed_image(&object)
                .map_or(Ok(()), |proposed| may_create(grants, &wrapper.image, origin, &proposed, allowed));
            (may_refer, may_create)
        });
        let wanted = objects::template_digest(&objects::machine_template(&object).to_string());
        let disk_key = ObjectKey::new(&key.namespace, objects::data_volume_name(&object));
        let claim = store.claims.get(&disk_key).map(|claim| claim.object.uid.clone());
        let taken = store.disk_name(&wrapper, &disk_key);
        let wrapped = store.wrapped.as_ref()?;
        let machine = wrapped.machine(key, &wrapper.uid, &wanted);
        let disk = wrapped.disk(&disk_key, &machine).map(|disk| WrapperDisk { claim, ..disk });
        Some(WrapperFacts {
            object,
            wrapper,
            image,
            image_is_live: false,
            may_refer,
            may_create,
            machine,
            disk,
            disk_name: taken,
            disk_name_is_live: false,
        })
    }

    /// Who has the name of the disk of a wrapper's machine.
    async fn read_disk_name(&self, facts: &WrapperFacts) -> Result<DiskNameOwner, ImageReadError> {
        let wrapper = &facts.wrapper;
        let disk = ObjectKey::new(&wrapper.key.namespace, objects::data_volume_name(&facts.object));
        let volume = self.get::<DataVolume>(&disk).await?;
        let claim = self.get::<PersistentVolumeClaim>(&disk).await?;
        Ok(backing::find_disk_name_owner(
            &wrapper.key,
            &wrapper.uid,
            volume.as_ref().map(backing::read_data_volume).as_ref(),
            claim.as_ref().map(backing::read_claim).as_ref(),
        ))
    }

    /// Reads a fact from the API server.
    pub(super) async fn read_wrapper_fact(
        &self,
        facts: &mut WrapperFacts,
        read: WrapperRead,
    ) -> Result<(), ImageReadError> {
        match read {
            WrapperRead::Image => {
                let found = self.get::<VmDiskImage>(&facts.wrapper.image).await?;
                (facts.image, facts.image_is_live) = (found.as_ref().map(read::read_wrapper_image), true);
                if let Some(image) = found {
                    self.update(|store, _| store.set_image(image, ObjectOrigin::Written));
                }
            }
            WrapperRead::DiskName => {
                (facts.disk_name, facts.disk_name_is_live) = (self.read_disk_name(facts).await?, true);
            }
        }
        Ok(())
    }

    /// The plan of a pass.
    pub(super) fn wrapper_plan(&self, facts: &WrapperFacts) -> Step<WrapperPlan, WrapperRead> {
        wrapper::plan_wrapper(&WrapperPassInput {
            now: self.now(),
            wrapper: &facts.wrapper,
            image: facts.image.as_ref(),
            image_is_live: facts.image_is_live,
            may_refer: facts.may_refer,
            may_create: &facts.may_create,
            machine: &facts.machine,
            disk: facts.disk.as_ref(),
            disk_name: &facts.disk_name,
            disk_name_is_live: facts.disk_name_is_live,
        })
    }
}

impl WrapperFacts {
    /// The wrapper as the subject of events.
    pub(super) fn subject(&self) -> EventSubject {
        EventSubject {
            api_version: API_VERSION.to_owned(),
            kind: WRAPPER_KIND.to_owned(),
            namespace: self.wrapper.key.namespace.as_str().into(),
            id: ObjectId::new(&self.wrapper.key.name, &self.wrapper.uid),
        }
    }
}
