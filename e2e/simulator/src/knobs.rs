//! Fault knobs, with which tests inject failures of the platform.
//!
//! A knob is an annotation `simulator.vmpool.dev/<knob>` on the machine or disk, or a key `<knob>` of the
//! ConfigMap `simulator-knobs` of its namespace. The object's knob has precedence.

use crate::duration::Delay;
use serde_json::Value;
use std::{
    collections::BTreeMap,
    net::{IpAddr, SocketAddr},
    str::FromStr,
};

/// Prefix of the simulator's labels and annotations.
pub const PREFIX: &str = "simulator.vmpool.dev/";
/// The simulator's annotations that are records, not knobs (without [`PREFIX`]).
pub const BOOKKEEPING: &[&str] = &["mount-log", "bumped", "content", "import-failure", "uploaded"];
/// Name of the ConfigMap with a namespace's defaults.
pub const CONFIG_MAP: &str = "simulator-knobs";

/// The value of the knob `address` for a guest without an address.
pub const NO_ADDRESS: &str = "none";

/// A guest that a user paused.
pub const PAUSED: &str = "Paused";
/// A guest that moves to a different node.
pub const MIGRATING: &str = "Migrating";
/// The values of the knob `guest-state`.
pub const GUEST_STATES: [&str; 2] = [PAUSED, MIGRATING];

/// The knobs of one object or one namespace.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Knobs {
    /// Time from the start of a machine to `Running`.
    pub start_delay: Option<Delay>,
    /// Time from the request to stop a machine to its stop.
    pub stop_delay: Option<Delay>,
    /// Time from a new generation of a machine to its evaluation.
    pub evaluation_delay: Option<Delay>,
    /// Duration of a disk's provisioning, binding or expansion.
    pub provisioning_delay: Option<Delay>,
    /// The machine has no finalizer, so that its object is removed immediately when it is deleted.
    pub skip_finalizers: Option<bool>,
    /// How many disks of the namespace fail to be provisioned. On a disk: whether it fails.
    pub fail_provisioning: Option<u64>,
    /// How often per second the phase of a running machine alternates.
    pub flap_phase: Option<f64>,
    /// How often per second an unrelated annotation of the machine changes.
    pub bump_annotations: Option<f64>,
    /// The machine becomes `Degraded` this long after it started to run, until the knob is removed.
    pub crash: Option<Delay>,
    /// The guest shuts down this long after it started to run, once per value of the knob.
    pub shutdown: Option<Delay>,
    /// The address of the guest; [`NO_ADDRESS`] if it has none.
    pub address: Option<String>,
    /// Restarts do not begin.
    pub hold_restart: Option<bool>,
    /// The machine starts although other machines use its disks, like a platform with a broken lock.
    pub ignore_mounts: Option<bool>,
    /// KubeVirt: the guest runs, but its Pod does not become ready.
    pub never_ready: Option<bool>,
    /// KubeVirt: how many starts of a machine fail before its guest runs.
    pub fail_start: Option<u64>,
    /// KubeVirt: the backoff after the first failed start.
    pub start_backoff: Option<Delay>,
    /// KubeVirt: no node takes the Pod of an instance.
    pub unschedulable: Option<bool>,
    /// KubeVirt: the image of the launcher cannot be pulled, for this reason.
    pub image_pull_error: Option<String>,
    /// KubeVirt: the container of launcher Pods, as JSON. The cluster schedules and runs these Pods: the
    /// simulator chooses no node for them, and does not write their status.
    pub launcher_container: Option<Value>,
    /// KubeVirt: a claim of the instance is missing.
    pub missing_claim: Option<bool>,
    /// The node of the guest does not respond: the guest is not ready, and neither stops nor ends. With
    /// KubeVirt, the instance stays as it is. With DVP, the machine is `Degraded`.
    pub node_loss: Option<bool>,
    /// KubeVirt: whether the changes that need no restart are applied to running instances.
    pub live_update: Option<bool>,
    /// KubeVirt: the guest cannot be migrated, so that it gets no CPU sockets and no memory while it runs.
    pub hold_hot_plug: Option<bool>,
    /// KubeVirt: how often the machine controller writes the status of a machine for each change of it.
    pub status_writes: Option<u64>,
    /// KubeVirt: specs of machines and instances lose what Go's encoder drops.
    pub go_encoding: Option<bool>,
    /// KubeVirt: a running machine needs a restart, also right after one.
    pub restart_required: Option<bool>,
    /// KubeVirt: the state of a running guest, one of [`GUEST_STATES`].
    pub guest_state: Option<String>,
    /// KubeVirt: the VirtualMachineSnapshot of this name is being taken of the machine.
    pub snapshot_in_progress: Option<String>,
    /// KubeVirt: the machine is being restored by the VirtualMachineRestore of this name, and does not start.
    pub restore_in_progress: Option<String>,
    /// CDI: a DataVolume is deleted when its copy has succeeded; the claim then belongs to the machine.
    pub collect_data_volumes: Option<bool>,
    /// CDI: the DataVolume enters this phase and stays in it.
    pub hold_phase: Option<String>,
    /// CDI: the copy does not proceed, for this reason.
    pub import_error: Option<String>,
    /// CDI: the copy does not proceed, and this is the message of the importer.
    pub import_message: Option<String>,
    /// CDI: how often the importer was restarted.
    pub import_restarts: Option<u64>,
    /// CDI: clones of claims take a snapshot in place of copying the data.
    pub smart_clone: Option<bool>,
    /// CDI: a host name and the address of its server, from which images are downloaded.
    pub http_host: Option<(String, SocketAddr)>,
    /// Snapshots: time until a snapshot is ready.
    pub snapshot_delay: Option<Delay>,
    /// Snapshots: the snapshot fails with this message.
    pub snapshot_error: Option<String>,
    /// Snapshots: the snapshot is not ready, without an error.
    pub hold_snapshot: Option<bool>,
}

/// An invalid knob.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum KnobError {
    /// The name is unknown.
    #[error("there is no knob {0:?}")]
    Unknown(String),
    /// The value is invalid.
    #[error("knob {name} cannot be {value:?}: {why}")]
    Value {
        /// Name of the knob.
        name: String,
        /// Its value.
        value: String,
        /// The expected value.
        why: String,
    },
}

impl Knobs {
    /// Parses the knobs in annotations. Invalid ones are reported and ignored.
    pub fn from_annotations(annotations: &BTreeMap<String, String>) -> (Option<Box<Self>>, Vec<KnobError>) {
        let ours = annotations
            .iter()
            .filter_map(|(key, value)| Some((key.strip_prefix(PREFIX)?, value.as_str())))
            .filter(|(name, _)| !BOOKKEEPING.contains(name));
        let (knobs, errors) = Self::read(ours);
        ((knobs != Self::default()).then(|| Box::new(knobs)), errors)
    }

    /// Parses the knobs in the data of a namespace's ConfigMap.
    pub fn from_config(data: &BTreeMap<String, String>) -> (Self, Vec<KnobError>) {
        Self::read(data.iter().map(|(name, value)| (name.as_str(), value.as_str())))
    }

    fn read<'a>(pairs: impl Iterator<Item = (&'a str, &'a str)>) -> (Self, Vec<KnobError>) {
        let mut knobs = Self::default();
        let errors = pairs.filter_map(|(name, value)| knobs.set(name, value).err()).collect();
        (knobs, errors)
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), KnobError> {
        let wrong = |why: String| KnobError::Value { name: name.to_owned(), value: value.to_owned(), why };
        let delay = || value.parse::<Delay>().map_err(|e| wrong(e.to_string()));
        match name {
            "start-delay" => self.start_delay = Some(delay()?),
            "stop-delay" => self.stop_delay = Some(delay()?),
            "evaluation-delay" => self.evaluation_delay = Some(delay()?),
            "provisioning-delay" => self.provisioning_delay = Some(delay()?),
            "skip-finalizers" => self.skip_finalizers = Some(plain(value).map_err(wrong)?),
            "fail-provisioning" => {
                self.fail_provisioning =
                    Some(if value == "true" { 1 } else { plain(value).map_err(wrong)? });
            }
            "flap-phase" => self.flap_phase = Some(rate(value).map_err(wrong)?),
            "bump-annotations" => self.bump_annotations = Some(rate(value).map_err(wrong)?),
            "crash" => self.crash = when(value).map_err(wrong)?,
            "shutdown" => self.shutdown = when(value).map_err(wrong)?,
            "address" => self.address = Some(parse_address(value).map_err(wrong)?),
            "hold-restart" => self.hold_restart = Some(plain(value).map_err(wrong)?),
            "ignore-mounts" => self.ignore_mounts = Some(plain(value).map_err(wrong)?),
            "never-ready" => self.never_ready = Some(plain(value).map_err(wrong)?),
            "fail-start" => self.fail_start = Some(count(value).map_err(wrong)?),
            "start-backoff" => self.start_backoff = Some(delay()?),
            "unschedulable" => self.unschedulable = Some(plain(value).map_err(wrong)?),
            "image-pull-error" => {
                self.image_pull_error =
                    Some(one_of(value, &["ErrImagePull", "ImagePullBackOff"]).map_err(wrong)?);
            }
            "launcher-container" => self.launcher_container = Some(object(value).map_err(wrong)?),
            "missing-claim" => self.missing_claim = Some(plain(value).map_err(wrong)?),
            "node-loss" => self.node_loss = Some(plain(value).map_err(wrong)?),
            "live-update" => self.live_update = Some(plain(value).map_err(wrong)?),
            "hold-hot-plug" => self.hold_hot_plug = Some(plain(value).map_err(wrong)?),
            "status-writes" => self.status_writes = Some(count_of_writes(value).map_err(wrong)?),
            "go-encoding" => self.go_encoding = Some(plain(value).map_err(wrong)?),
            "restart-required" => self.restart_required = Some(plain(value).map_err(wrong)?),
            "guest-state" => self.guest_state = Some(one_of(value, &GUEST_STATES).map_err(wrong)?),
            "snapshot-in-progress" => self.snapshot_in_progress = Some(value.to_owned()),
            "restore-in-progress" => self.restore_in_progress = Some(value.to_owned()),
            "collect-datavolumes" => self.collect_data_volumes = Some(plain(value).map_err(wrong)?),
            "hold-phase" => self.hold_phase = Some(value.to_owned()),
            "import-error" => {
                self.import_error = Some(one_of(value, &["Error", "ImagePullFailed"]).map_err(wrong)?);
            }
            "import-message" => self.import_message = Some(value.to_owned()),
            "import-restarts" => self.import_restarts = Some(plain(value).map_err(wrong)?),
            "smart-clone" => self.smart_clone = Some(plain(value).map_err(wrong)?),
            "http-host" => self.http_host = Some(host(value).map_err(wrong)?),
            "snapshot-delay" => self.snapshot_delay = Some(delay()?),
            "snapshot-error" => self.snapshot_error = Some(value.to_owned()),
            "hold-snapshot" => self.hold_snapshot = Some(plain(value).map_err(wrong)?),
            _ => return Err(KnobError::Unknown(name.to_owned())),
        }
        Ok(())
    }
}

fn plain<T: FromStr<Err: std::fmt::Display>>(value: &str) -> Result<T, String> {
    value.parse().map_err(|e: T::Err| e.to_string())
}

/// A number, `true` for unlimited, or `false` for 0.
fn count(value: &str) -> Result<u64, String> {
    match value {
        "true" => Ok(u64::MAX),
        "false" => Ok(0),
        number => plain(number),
    }
}

/// With more writes, a machine would change for ever.
const MOST_WRITES: u64 = 100;

fn count_of_writes(value: &str) -> Result<u64, String> {
    let writes: u64 = plain(value)?;
    if (1..=MOST_WRITES).contains(&writes) {
        Ok(writes)
    } else {
        Err(format!("expected a number from 1 to {MOST_WRITES}"))
    }
}

fn parse_address(value: &str) -> Result<String, String> {
    if value == NO_ADDRESS { Ok(value.to_owned()) } else { plain::<IpAddr>(value).map(|ip| ip.to_string()) }
}

fn host(value: &str) -> Result<(String, SocketAddr), String> {
    let (host, address) = value.split_once('=').ok_or("expected <host>=<address>:<port>")?;
    Ok((host.to_owned(), plain(address)?))
}

fn object(value: &str) -> Result<Value, String> {
    let object: Value = plain(value)?;
    if object.is_object() { Ok(object) } else { Err("expected a JSON object".to_owned()) }
}

fn one_of(value: &str, allowed: &[&str]) -> Result<String, String> {
    if allowed.contains(&value) {
        Ok(value.to_owned())
    } else {
        Err(format!("expected one of {}", allowed.join(", ")))
    }
}

/// At higher rates the simulator's queue, not the knob, would determine the rate.
const FASTEST_PER_SECOND: f64 = 100.0;

fn rate(value: &str) -> Result<f64, String> {
    let rate: f64 = plain(value)?;
    if rate > 0.0 && rate <= FASTEST_PER_SECOND {
        Ok(rate)
    } else {
        Err(format!("expected a rate per second, more than 0 and at most {FASTEST_PER_SECOND}"))
    }
}

fn when(value: &str) -> Result<Option<Delay>, String> {
    match value {
        "true" | "now" => Ok(Some(Delay::NONE)),
        "false" => Ok(None),
        _ => value.parse().map(Some).map_err(|e: crate::duration::DelayError| e.to_string()),
    }
}

/// The knobs of an object, with the knobs of its namespace as defaults.
#[derive(Clone, Copy, Debug)]
pub struct Effective<'a> {
    own: Option<&'a Knobs>,
    namespace: Option<&'a Knobs>,
}

impl<'a> Effective<'a> {
    /// Combines the knobs of an object with those of its namespace.
    pub fn new(own: Option<&'a Knobs>, namespace: Option<&'a Knobs>) -> Self {
        Self { own, namespace }
    }

    /// The value of one knob, if it is set.
    pub fn get<T>(&self, knob: impl Fn(&Knobs) -> Option<T>) -> Option<T> {
        self.own.and_then(&knob).or_else(|| self.namespace.and_then(&knob))
    }

    /// Whether a boolean knob is true.
    pub fn is(&self, knob: impl Fn(&Knobs) -> Option<bool>) -> bool {
        self.get(knob).unwrap_or(false)
    }
}

#[cfg(test)]
mod tests;
