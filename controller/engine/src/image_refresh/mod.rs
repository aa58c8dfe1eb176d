//! Image refresh: machines whose disks were created from content that the source of their disk template no
//! longer leads to.
//!
//! ```text
//!  disk template --names--> image, or DataSource --leads to--> content, with an identity
//!       |                                                           |
//!       | the create of a machine records it: vmpool.dev/disk-sources
//!       v                                                           v  has been another one for a minute
//!  machine ------------------------------------------------> outdated by image
//! ```
//!
//! The platform names the sources and the controller follows them, see [`DiskContents`]. A source that is
//! missing or not ready has no content, so it makes nothing outdated. A source that changes in the template
//! makes nothing outdated either: it follows the rules of rollouts. How long a source has led to its content
//! is in the memory of the leader, see [`ContentClock`], so a new leader only delays.

mod clock;
mod content;
mod outdated;
mod setting;

pub use clock::{ContentClock, SETTLING_TIME};
pub use content::{
    DISK_SOURCES, DiskContent, DiskContents, LONGEST_RECORD, format_disk_sources, read_disk_sources,
};
pub use outdated::count_image_outdated;
pub(crate) use outdated::{
    find_image_outdated, find_outdated_sources, find_time_until_known, is_outdated_by_image,
    may_become_outdated,
};
pub use setting::{
    IMAGE_REFRESH, IMAGE_REFRESH_FIELD, IMAGE_REFRESH_SETTING, ImageRefresh, ImageRefreshError,
    parse_image_refresh, parse_image_refresh_text, read_image_refresh,
};

#[cfg(test)]
mod tests;
