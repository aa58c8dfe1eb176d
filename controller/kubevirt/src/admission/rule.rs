//! The catalogue of rules: their names, their effects and the requests that they apply to.

pub use vmpool_platform::rule_catalogue::RuleScope;
use vmpool_platform::rules;

rules! {
    TargetsRecord "W12a" Forbidden Always "Only the API server for removals and the controller write the removal \
    record";
    NameLength "K1" Invalid Create "The name of a pool has at most 61 characters";
    SpecSize "K2" Invalid Part "The spec of a pool has at most 128 KiB of JSON";
    Value "K3" Invalid Part "Every number is in the range that the API defines";
    UnknownWord "K3a" NotSupported Part "Every sort policy and state preservation is one that the API defines";
    NoTemplate "K4" Required Template "There is a machine template";
    NoInstanceTemplate "K5" Required Template "The machine template has a template for the VirtualMachineInstance";
    ReservedLabels "K6" NotSupported Template "Only KubeVirt puts its own labels on VirtualMachineInstances";
    DiskWithoutVolume "K7" Invalid Template "Every disk has a volume of the same name";
    VolumeNames "K7a" Invalid Template "Names of disks and volumes are DNS labels, and no two disks or volumes share one";
    DataVolumeIncomplete "K8" Required Template "A DataVolume template has a name, pvc or storage, and a source";
    DataVolumeInvalid "K8a" Invalid Template "A DataVolume template has one kind of storage and one kind of source, a \
    name that can be used, and a volume that refers to it";
    RunningAndStrategy "K9" Invalid Template "running and runStrategy are not both set";
    NoRunStrategy "K10" Invalid Template "running or runStrategy is set";
    RunStrategy "K11" Invalid Template "runStrategy is one that KubeVirt defines";
    Selector "K13" Invalid Part "selector is a valid label selector";
    SelectorMatch "K14" Invalid Part "selector matches the labels of the machine template";
    NoPercent "K15" Invalid Part "A maxUnavailable in quotes ends with %";
    BadPercent "K16" Invalid Part "The part of maxUnavailable before % is an integer";
    PercentRange "K17" Invalid Part "The percentage of maxUnavailable is between 1 and 100";
    NumberRange "K18" Invalid Part "A maxUnavailable without quotes is an integer greater than 0";
    UpdateStrategies "K19" Invalid Part "updateStrategy has at most one field";
    ScaleInStrategies "K20" Invalid Part "scaleInStrategy has at most one field";
    SelectorChanged "K21" Invalid Update "selector never changes";
    PolicySelectors "K22" Invalid Part "The selectors of selection policies are valid";
    HealingTime "K23" Invalid Part "minFailingToStartDuration is not negative";
    ReservedKeys "K24" Invalid Template "Labels and annotations of machines do not use the prefix vmpool.dev, except vmpool.dev/refresh-instancetype";
    MaxProtection "K25" Invalid Part "maxProtection is a duration from 1m to 720h";
    ProgressDeadline "K50" Invalid Part "progressDeadlineSeconds is a number of seconds from 1";
    ImageRefresh "K56" Invalid Part "imageRefresh is Off, Report or Recreate, and not Recreate if statePreservation \
    retains the disks";
    MaxProvisioning "K48" Invalid Part "maxProvisioning is a number from 1, or a percentage from 1% to 100%";
    PolicyChanged "K26" Invalid Update "instancetypePolicy does not change while the pool has machines";
    MachineRejected "K27" Invalid Template "The API server accepts a machine of the pool, which the webhook creates as a \
    dry run if the template names no instance type and no preference";
    InstanceMetadata "K28" Invalid Template "The API server accepts the labels and annotations of VirtualMachineInstances";
    HistoryLimit "K29" Invalid Part "revisionHistoryLimit is a number from 0";
    Healing "K54" Invalid Part "healing has durations from 1s to 24h, and maxUnhealthy is a number from 1 or a \
    percentage";
    Drain "K49" Invalid Part "drain.timeout is a duration from 0s to 24h";
    Standby "K51" Invalid Part "standby has a number of machines and known settings, and its pool starts machines by \
    itself and preserves no state";
    Recycle "K52" Invalid Part "recycle has maxLifetime from 10m, maxClaims from 1 and jitter from 0 to 100";
    AnnotatedNames "K46" Invalid Part "The annotation for nameGeneration lists fields that vmpool adds to it";
    EmptiedPool "W17" Warning Update "replicas does not go to zero";
    LongName "K30" Warning Create "The name of a pool has at most 52 characters";
    UnknownField "K31" Warning Part "The spec has no fields that vmpool does not know, except in the machine template";
    InnerLabels "K32" Warning Part "selector also matches the labels of the VirtualMachineInstances";
    OnlinePreservation "K33" Warning Part "statePreservation is not Online";
    DataVolumesReplaced "K34" Warning Update "The DataVolume templates do not change while updates are proactive";
    SharedDataVolumes "K35" Warning Template "No other pool of the namespace has DataVolume templates of the same names";
    SharedMachines "K36" Warning Part "The selectors of two pools of a namespace do not match the same machines";
    TypeConflict "K37" Warning Template "A machine template with instancetype does not set CPU or memory";
    LiveUpdateLimit "K38" Warning Template "Sockets and memory of the guest are at most their maximum";
    WaitAsReceiver "K39" Warning Template "runStrategy is not WaitAsReceiver";
    MachineNotValidated "K40" Warning Template "The webhook can create a machine of the pool as a dry run";
    ExistingStorage "K41" Warning Part "No DataVolume or PersistentVolumeClaim without an owner has the name of one that a new \
    machine would have";
    SharedIdentity "K42" Warning Template "The machine template fixes no host name, MAC address, UUID or serial number";
    UnknownTemplateField "K43" Warning Template "The upper objects of the machine template have no fields that KubeVirt \
    does not have";
    MemoryUnit "K44" Warning Template "Memory is at least 1Mi: a number without a unit means bytes";
    StorageNotMigrated "K45" Warning Update "updateVolumesStrategy Migration does not come with renamed DataVolume templates";
}
