//! Flags of disk images.

use std::time::Duration;

use clap::Args;
use vmpool_diskimage::objects::INSTANCETYPE_LABELS;
use vmpool_diskimage::settings::ImportLimits;
use vmpool_diskimage::source::{SourceUrl, UrlError};

use crate::images::ImageSettings;

/// Flags that have an effect with the feature gate DiskImages.
#[derive(Debug, Args)]
#[command(next_help_heading = "Disk images")]
pub struct ImageArgs {
    /// Number of disk images that are imported at the same time, in the whole cluster.
    #[arg(long, env = "VMPOOL_DISK_IMAGE_MAX_CONCURRENT_SYNCS", default_value_t = 10, value_name = "COUNT")]
    pub disk_image_max_concurrent_syncs: usize,

    /// Number of disk images of one namespace that are imported at the same time. The other places are for
    /// images of other namespaces. Images of the source types blank and upload need no place.
    #[arg(
        long,
        env = "VMPOOL_DISK_IMAGE_MAX_CONCURRENT_SYNCS_PER_NAMESPACE",
        default_value_t = 5,
        value_name = "COUNT"
    )]
    pub disk_image_max_concurrent_syncs_per_namespace: usize,

    /// Longest duration of one attempt to import a disk image.
    #[arg(long, env = "VMPOOL_DISK_IMAGE_MAX_ATTEMPT_DURATION", default_value = "1h", value_name = "DURATION",
          value_parser = vmpool_runtime::duration::parse_duration)]
    pub disk_image_max_attempt_duration: Duration,

    /// Number of restarts of the transfer after which an attempt fails.
    #[arg(long, env = "VMPOOL_DISK_IMAGE_MAX_ATTEMPT_RESTARTS", default_value_t = 3, value_name = "COUNT")]
    pub disk_image_max_attempt_restarts: u32,

    /// A third of the wait after the first failed attempt. Each further wait is three times as long: with 1m,
    /// the controller waits 3, 9 and 27 minutes, up to the longest wait.
    #[arg(long, env = "VMPOOL_DISK_IMAGE_BACKOFF_UNIT", default_value = "1m", value_name = "DURATION",
          value_parser = vmpool_runtime::duration::parse_duration)]
    pub disk_image_backoff_unit: Duration,

    /// Longest wait after a failed attempt.
    #[arg(long, env = "VMPOOL_DISK_IMAGE_MAX_BACKOFF", default_value = "1h", value_name = "DURATION",
          value_parser = vmpool_runtime::duration::parse_duration)]
    pub disk_image_max_backoff: Duration,

    /// Longest duration of all attempts together. After it, the controller does not try again on its own.
    #[arg(long, env = "VMPOOL_DISK_IMAGE_MAX_SYNC_DURATION", default_value = "12h", value_name = "DURATION",
          value_parser = vmpool_runtime::duration::parse_duration)]
    pub disk_image_max_sync_duration: Duration,

    /// How long a new snapshot may take to become ready.
    #[arg(long, env = "VMPOOL_DISK_IMAGE_SNAPSHOT_TIMEOUT", default_value = "30m", value_name = "DURATION",
          value_parser = vmpool_runtime::duration::parse_duration)]
    pub disk_image_snapshot_timeout: Duration,

    /// How long the snapshot of a ready image may be unready before the controller takes a new one.
    #[arg(long, env = "VMPOOL_DISK_IMAGE_SNAPSHOT_UNREADY_GRACE", default_value = "5m", value_name = "DURATION",
          value_parser = vmpool_runtime::duration::parse_duration)]
    pub disk_image_snapshot_unready_grace: Duration,

    /// Maximum time between two passes of a disk image.
    #[arg(long, env = "VMPOOL_DISK_IMAGE_RESYNC_PERIOD", default_value = "5m", value_name = "DURATION",
          value_parser = vmpool_runtime::duration::parse_duration)]
    pub disk_image_resync_period: Duration,

    /// Prefixes of the labels that the objects of a disk image get from it. Other labels are not copied,
    /// because tools that track objects by label would take these objects for their own.
    #[arg(
        long,
        env = "VMPOOL_DISK_IMAGE_COPY_LABEL_PREFIXES",
        default_value = INSTANCETYPE_LABELS,
        value_name = "PREFIX,...",
        value_delimiter = ','
    )]
    pub disk_image_copy_label_prefixes: Vec<String>,

    /// URLs at which the URL of every disk image must begin. Without it, all URLs are allowed, except those
    /// with local addresses.
    #[arg(
        long,
        env = "VMPOOL_DISK_IMAGE_ALLOWED_URL_PREFIXES",
        value_name = "URL,...",
        value_delimiter = ','
    )]
    pub disk_image_allowed_url_prefixes: Vec<String>,
}

/// A flag of disk images is invalid.
#[derive(Debug, thiserror::Error)]
pub enum ImageArgsError {
    /// A value is zero.
    #[error("--disk-image-{0} must be greater than 0")]
    Zero(&'static str),
    /// A URL cannot be read.
    #[error("--disk-image-allowed-url-prefixes: {text}")]
    Prefix {
        /// The value.
        text: String,
        /// The cause.
        source: UrlError,
    },
}

impl ImageArgs {
    /// The validated settings.
    ///
    /// # Errors
    /// An error that names the flag.
    pub fn settings(&self) -> Result<ImageSettings, ImageArgsError> {
        let durations = [
            ("max-attempt-duration", self.disk_image_max_attempt_duration),
            ("backoff-unit", self.disk_image_backoff_unit),
            ("max-backoff", self.disk_image_max_backoff),
            ("max-sync-duration", self.disk_image_max_sync_duration),
            ("snapshot-timeout", self.disk_image_snapshot_timeout),
            ("resync-period", self.disk_image_resync_period),
        ];
        let zero = durations.iter().find(|(_, duration)| duration.is_zero()).map(|(name, _)| *name);
        let zero = zero
            .or((self.disk_image_max_concurrent_syncs == 0).then_some("max-concurrent-syncs"))
            .or((self.disk_image_max_concurrent_syncs_per_namespace == 0)
                .then_some("max-concurrent-syncs-per-namespace"))
            .or((self.disk_image_max_attempt_restarts == 0).then_some("max-attempt-restarts"));
        if let Some(name) = zero {
            return Err(ImageArgsError::Zero(name));
        }
        let parse = |text: &String| {
            SourceUrl::parse(text).map_err(|source| ImageArgsError::Prefix { text: text.clone(), source })
        };
        let prefixes = self.disk_image_copy_label_prefixes.iter();
        Ok(ImageSettings {
            limits: ImportLimits {
                max_concurrent_syncs: self.disk_image_max_concurrent_syncs,
                max_concurrent_syncs_per_namespace: self.disk_image_max_concurrent_syncs_per_namespace,
                max_attempt_duration: self.disk_image_max_attempt_duration,
                max_attempt_restarts: self.disk_image_max_attempt_restarts,
                backoff_unit: self.disk_image_backoff_unit,
                max_backoff: self.disk_image_max_backoff,
                max_sync_duration: self.disk_image_max_sync_duration,
                snapshot_timeout: self.disk_image_snapshot_timeout,
                snapshot_unready_grace: self.disk_image_snapshot_unready_grace,
            },
            resync: self.disk_image_resync_period,
            // An empty prefix would copy all labels.
            copied_label_prefixes: prefixes.filter(|prefix| !prefix.is_empty()).cloned().collect(),
            allowed_urls: self.disk_image_allowed_url_prefixes.iter().map(parse).collect::<Result<_, _>>()?,
            wrappers: false,
        })
    }
}
