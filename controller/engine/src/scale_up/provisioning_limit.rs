//! The limit on provisioning: how many machines of a pool may be created and not have been ready yet.

use std::collections::BTreeMap;

use serde_json::Value;
use vmpool_api::{Share, ShareError, annotations};

use crate::annotated_setting::{AnnotatedSetting, UnreadableSetting};

/// On pools: the limit, for example `5` or `10%`.
pub const MAX_PROVISIONING: &str = annotations::MAX_PROVISIONING;
/// The field of the spec of pools that is equivalent to [`MAX_PROVISIONING`], and overrides it. Definitions
/// of pools other than those of vmpool do not have it.
pub const MAX_PROVISIONING_FIELD: &str = "maxProvisioning";

/// How many machines of a pool may provision at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProvisioningLimit {
    /// A number of machines, at least one.
    Machines(usize),
    /// A percentage of the desired machines, rounded up, but at least one machine.
    Percent(u8),
}

impl ProvisioningLimit {
    /// How many of `desired` machines it allows: at least one.
    pub fn of(self, desired: usize) -> usize {
        match self {
            Self::Machines(machines) => machines,
            Self::Percent(percent) => desired.saturating_mul(usize::from(percent)).div_ceil(100),
        }
        .max(1)
    }
}

impl From<Share> for ProvisioningLimit {
    fn from(share: Share) -> Self {
        match share {
            Share::Machines(machines) => Self::Machines(usize::try_from(machines).unwrap_or(usize::MAX)),
            Share::Percent(percent) => Self::Percent(percent),
        }
    }
}

/// Why a value is no share of a pool, in the words of admission rules. The error itself quotes the value, and
/// so does a refusal.
pub fn describe_share_error(error: &ShareError) -> &'static str {
    match error {
        ShareError::NotAShare { .. } => "it is neither a number of machines nor a percentage",
        ShareError::TooSmall { .. } => "it is less than one machine",
        ShareError::TooLarge { .. } => "it is more than all machines",
    }
}

/// The setting as a field and as an annotation.
pub const MAX_PROVISIONING_SETTING: AnnotatedSetting<Share, ShareError> = AnnotatedSetting {
    field: MAX_PROVISIONING_FIELD,
    annotation: MAX_PROVISIONING,
    parse_field: Share::from_json,
    parse_annotation: str::parse,
    consequence: ", so one machine at a time is provisioned; correct or remove it",
    reason: describe_share_error,
    way_out: "use a number of machines from 1, or 1% to 100%, or remove it",
};

/// The limit of a pool: the field of its spec, or else the annotation, as for all settings that have both;
/// `None` without a limit. An unreadable value counts as one machine, and adds a message to
/// `invalid_settings`.
pub fn read_max_provisioning(
    field: &Value,
    annotations: Option<&BTreeMap<String, String>>,
    invalid_settings: &mut Vec<String>,
) -> Option<ProvisioningLimit> {
    match MAX_PROVISIONING_SETTING.read(field, annotations, invalid_settings) {
        Ok(share) => share.map(ProvisioningLimit::from),
        Err(UnreadableSetting) => Some(ProvisioningLimit::Machines(1)),
    }
}

#[cfg(test)]
mod tests;
