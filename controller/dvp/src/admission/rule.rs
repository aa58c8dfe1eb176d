//! The catalogue of rules: their names, their effects and the requests that they apply to.

pub use vmpool_platform::rule_catalogue::RuleScope;
use vmpool_platform::rules;

rules! {
    TargetsRecord "W12a" Forbidden Always "Only the API server for removals and the controller write the removal \
    record";
    ExplicitCount "W12" Forbidden Update "Under scaleDownPolicy Explicit, only targeted removals lower replicas";
    ScaleGuard "S" Forbidden Scale "The same for the scale subresource, which autoscalers and kubectl scale use";
    Unreadable "P" Invalid Part "Every part has the type that the API defines";
    Schema "P1" Invalid Part "Every value is one that the definition of vmpool allows: its words, lengths, numbers \
    and patterns";
    NameLength "W0" Invalid Create "The name of a pool has at most 57 characters";
    NameDots "W0a" Invalid Create "The name of a pool has no dot";
    SpecSize "L1" Invalid Part "The spec of a pool has at most 128 KiB of JSON";
    DiskNotAttached "C1" Invalid Devices "Every disk template is attached by a device of kind VirtualDisk";
    DeviceWithoutTemplate "C2" Invalid Devices "Every device of kind VirtualDisk names a disk template";
    DiskAttachedTwice "C3" Invalid Devices "No disk template is attached twice";
    LegacyGuest "C4" Invalid Template "osType is not Legacy";
    ReclaimWithoutRetain "C5" Invalid DiskTemplate "keep and ttl come with onScaleDown Retain only";
    KeepWithoutTtl "C6" Invalid DiskTemplate "keep comes with a ttl";
    BadTtl "C7" Invalid DiskTemplate "ttl is a duration longer than zero";
    ReclaimChanged "C8" Invalid DiskTemplate "onScaleDown of a disk template never changes";
    BadCoreFraction "C9" Invalid Template "coreFraction is Auto or a percentage from 1% to 100%";
    NoMemory "C10" Invalid Template "memory.size is an amount greater than zero";
    MemoryUnit "C10a" Warning Template "memory.size is at least 1Mi: a number without a unit means bytes";
    Provisioning "C11" Invalid Template "provisioning has the data that its type names, and no other";
    LongUserData "C12" Invalid Template "Inline user data has at most 2048 bytes";
    DataSource "C13" Invalid DiskTemplate "A data source has a type, the part that the type names, and no other";
    MaxUnavailable "C14" Invalid Rollout "maxUnavailable is a number from 1, or a percentage from 1% to 100%";
    HistoryLimit "C15" Invalid Rollout "revisionHistoryLimit is a number from 0";
    RevisionName "C16" Invalid Rollout "The name of a revision has lower-case letters, digits and dashes only";
    Devices "W1" Invalid Template "No device is listed twice; boot orders begin at 1 and differ";
    PlatformKeys "W2" Invalid Template "Labels and annotations of machines contain no kubevirt.io";
    Cores "W3" Invalid Template "There are 1 to 248 cores, and they fill the sockets evenly";
    Placement "W4" Invalid Template "Affinity and topology spread constraints are valid for a pod";
    Sizing "W5" Invalid Template "Cores, core fraction and memory fit the sizing policies of the class";
    ClassUnknown "W5w" Warning Template "The class exists, and its sizing policies can be read";
    AutoFraction "W5a" Invalid Template "coreFraction Auto needs in-place resize, and a class that leaves at least two fractions below 100%";
    Networks "W6" Invalid Template "The networks fit each other and the cluster";
    BootsFromImage "W7" Invalid Template "The device that machines boot from is not an image that is ready and no CD-ROM";
    ImageUnknown "W7w" Warning Template "The images that machines have as devices exist";
    Gpus "W8" Invalid Template "GPUs are requested only if the cluster has them";
    UserData "W9" Warning Template "Inline user data looks like something that cloud-init understands";
    Identities "W10" Invalid Template "The template contains nothing that only one machine can use";
    ReservedKeys "W11" Invalid Template "Labels and annotations of machines do not use the prefix of pools";
    DiskSmaller "W13" Warning DiskTemplate "A disk size is not reduced";
    RetainRemoved "W14" Warning Update "No disk template with onScaleDown Retain is removed";
    Upload "W15" Invalid DiskTemplate "No data source has type Upload";
    DiskSize "D1" Invalid DiskTemplate "A disk size is greater than zero, and present if there is no data source";
    DiskBelowSource "D2" Warning DiskTemplate "A disk is not smaller than its source";
    DiskFromIso "D3" Warning DiskTemplate "A disk is not created from the image of a CD-ROM";
    SourceUnknown "D4" Warning DiskTemplate "The image or snapshot that a disk is created from exists";
    StorageClassUnknown "D5" Warning DiskTemplate "The storage class of a disk exists";
    LeavingExplicit "W16" Warning Update "scaleDownPolicy does not change from Explicit while there are more \
    machines than replicas";
    EmptiedPool "W17" Warning Update "replicas does not go to zero";
    MaxProtection "W24" Invalid Rollout "maxProtection is a duration from 1m to 720h";
    ProgressDeadline "W28" Invalid Rollout "progressDeadlineSeconds is a number of seconds from 1";
    MaxProvisioning "W26" Invalid Rollout "maxProvisioning is a number from 1, or a percentage from 1% to 100%";
    Healing "W32" Invalid Rollout "healing has durations from 1s to 24h, and maxUnhealthy is a number from 1 or a \
    percentage";
    Drain "W27" Invalid Rollout "drain.timeout is a duration from 0s to 24h";
    Standby "W29" Invalid Rollout "standby has a number of machines and known settings, and its template starts \
    machines by itself";
    Recycle "W30" Invalid Rollout "recycle has maxLifetime from 10m, maxClaims from 1 and jitter from 0 to 100";
    ImageRefresh "W34" Invalid Rollout "imageRefresh is Off, Report or Recreate, and not Recreate if all disks are \
    retained";
    RolloutAnnotation "W18" Invalid Rollout "Annotations of the rollout have values that their fields could have";
    RolloutContradiction "W19" Warning Rollout "Annotations of the rollout do not contradict their fields";
    PinnedRevision "W20" Invalid Rollout "A pinned revision is stored, and its disks have templates";
    RolloutHeld "W21" Warning Update "The machine template does not change while a revision is pinned or the \
    rollout is paused";
    MetadataKeys "W22" Invalid Template "Labels and annotations of machines have keys and values that Kubernetes allows";
    BecomingExplicit "W23" Warning Update "scaleDownPolicy does not change to Explicit while there are more \
    machines than replicas";
}
