//! What the caches show of one wrapper.

use std::sync::Arc;

use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use vmpool_api::diskimage::{API_VERSION, VirtualMachine, WRAPPER_KIND};
use vmpool_api::kubevirt::DataVolume;
use vmpool_diskimage::grants::{Refused, may_create, may_refer};
use vmpool_diskimage::model::{Found, Key, ReferrerKind};
use vmpool_diskimage::read::backing;
use vmpool_diskimage::read::wrapper as read;
use vmpool_diskimage::wrapper::{
    self, DiskName, Plan, SeenDisk, SeenImage, SeenMachine, World, Wrapper, objects,
};
use vmpool_engine::ObjectId;

use super::context::Context;
use super::live::ReadFailed;
use crate::events::Subject;

/// What one pass of a wrapper knows.
pub(super) struct WrapperFacts {
    pub(super) object: Arc<VirtualMachine>,
    pub(super) wrapper: Wrapper,
    pub(super) image: Option<SeenImage>,
    pub(super) may_refer: bool,
    pub(super) may_create: Result<(), Refused>,
    pub(super) machine: Found<SeenMachine>,
    pub(super) disk: Option<SeenDisk>,
    pub(super) disk_name: DiskName,
    pub(super) disk_name_is_live: bool,
}

impl Context {
    /// What the caches show of a wrapper; `None` if it does not exist.
    pub(super) fn wrapper_facts(&self, key: &Key) -> Option<WrapperFacts> {
        let store = self.store.lock();
        let object = store.wrapped.as_ref()?.wrappers.get(key)?.clone();
        let wrapper = read::wrapper(&object);
        let image = store.images.get(&wrapper.image).map(|image| read::seen_image(image));
        let (may_refer, may_create) = store.with_grants(&wrapper.image, &key.namespace, |grants, origin| {
            let may_refer = may_refer(grants, &wrapper.image, origin, ReferrerKind::Wrapper);
            let allowed = &self.settings.allowed_urls;
            let may_create = read::proposed(&object)
                .map_or(Ok(()), |proposed| may_create(grants, &wrapper.image, origin, &proposed, allowed));
            (may_refer, may_create)
        });
        let wanted = objects::digest(&objects::template(&object).to_string());
        let disk_key = Key::new(&key.namespace, objects::data_volume_name(&object));
        let claim = store.claims.get(&disk_key).map(|claim| claim.object.uid.clone());
        let taken = store.disk_name(&wrapper, &disk_key);
        let wrapped = store.wrapped.as_ref()?;
        let machine = wrapped.machine(key, &wrapper.uid, &wanted);
        let disk = wrapped.disk(&disk_key, &machine).map(|disk| SeenDisk { claim, ..disk });
        Some(WrapperFacts {
            object,
            wrapper,
            image,
            may_refer,
            may_create,
            machine,
            disk,
            disk_name: taken,
            disk_name_is_live: false,
        })
    }

    /// Who has the name of the disk of a wrapper's machine.
    pub(super) async fn read_disk_name(&self, facts: &WrapperFacts) -> Result<DiskName, ReadFailed> {
        let wrapper = &facts.wrapper;
        let disk = Key::new(&wrapper.key.namespace, objects::data_volume_name(&facts.object));
        let volume = self.get::<DataVolume>(&disk).await?;
        let claim = self.get::<PersistentVolumeClaim>(&disk).await?;
        Ok(backing::disk_name(
            (&wrapper.key, &wrapper.uid),
            volume.as_ref().map(backing::data_volume).as_ref(),
            claim.as_ref().map(backing::claim).as_ref(),
        ))
    }

    /// The plan of a pass. `is_live` says whether the image was read from the API server in this pass.
    pub(super) fn wrapper_plan(&self, facts: &WrapperFacts, is_live: bool) -> Plan {
        wrapper::plan(&World {
            now: self.now(),
            wrapper: &facts.wrapper,
            image: facts.image.as_ref(),
            image_is_live: is_live,
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
    pub(super) fn subject(&self) -> Subject {
        Subject {
            api_version: API_VERSION.to_owned(),
            kind: WRAPPER_KIND.to_owned(),
            namespace: self.wrapper.key.namespace.as_str().into(),
            id: ObjectId::new(&self.wrapper.key.name, &self.wrapper.uid),
        }
    }
}
