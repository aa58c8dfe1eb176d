//! The commands. Those about a pool are generic over its platform.

pub(crate) mod adopt;
pub(crate) mod autoscaler;
pub(crate) mod claim;
pub(crate) mod completion;
pub(crate) mod convert;
pub(crate) mod create;
pub(crate) mod dashboard;
pub(crate) mod doctor;
pub(crate) mod drain;
pub(crate) mod list;
pub(crate) mod plan;
pub(crate) mod protect;
pub(crate) mod remove;
pub(crate) mod report;
pub(crate) mod restart;
pub(crate) mod revisions;
pub(crate) mod scale;
pub(crate) mod status;
pub(crate) mod version;
