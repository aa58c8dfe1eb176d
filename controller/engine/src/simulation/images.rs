//! Images of which disks are created, and that get other content.

use std::sync::Arc;
use std::time::Duration;

use crate::image_refresh::{DiskContent, DiskContents, ImageRefresh, format_disk_sources};
use crate::model::{Lifetime, Machine, Pool};

/// What the images of a pool lead to at one version of the pool.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ModelImages {
    /// What a machine records that is created at this version.
    pub(super) record: Option<Arc<str>>,
    /// Whether the pool replaces machines with another record.
    recreates: bool,
}

impl ModelImages {
    pub(super) fn of(pool: &Pool) -> Self {
        Self {
            record: format_disk_sources(&pool.disk_contents).map(Arc::from),
            recreates: pool.image_refresh == ImageRefresh::Recreate,
        }
    }

    /// Whether the pool may replace this machine because of its images.
    pub(super) fn replaces(&self, machine: &Machine) -> bool {
        self.recreates && self.record.is_some() && self.record != machine.disk_sources
    }
}

/// What the source of each ephemeral disk leads to after this number of changes.
pub(super) fn contents_after(pool: &Pool, changes: usize, created: Duration) -> DiskContents {
    let created = jiff::Timestamp::from_second(created.as_secs().cast_signed()).expect("in range");
    let ephemeral = pool.disks.iter().filter(|template| template.lifetime == Lifetime::Ephemeral);
    let content = |name: &Arc<str>| {
        let content = DiskContent { source: "image".into(), id: changes.to_string().into(), created };
        (name.clone(), content)
    };
    ephemeral.map(|template| content(&template.name)).collect()
}

/// Makes the pool replace machines for its images, which lead to the first of two contents.
pub(super) fn follow_images(pool: &mut Pool) {
    pool.image_refresh = ImageRefresh::Recreate;
    pool.disk_contents = contents_after(pool, 0, Duration::ZERO);
}

/// Makes the images of the pool lead to the other one of two contents, which is as old as the first one.
pub(super) fn exchange_contents(pool: &mut Pool) {
    let first = contents_after(pool, 0, Duration::ZERO);
    let is_first = pool.disk_contents == first;
    pool.disk_contents = if is_first { contents_after(pool, 1, Duration::ZERO) } else { first };
}
