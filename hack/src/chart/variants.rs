//! The ways to install the chart that are rendered and checked.

use std::collections::BTreeSet;

/// One way to install the chart.
#[derive(Debug)]
pub(super) struct Variant {
    /// What to call it in messages.
    pub(super) name: &'static str,
    /// Values, as `--set` takes them.
    pub(super) values: &'static [&'static str],
    /// The gate VirtualMachinePool.
    pub(super) gate: Gate,
    /// Whose definition of the pool there is.
    definition: Definition,
    /// Where pools are looked after.
    pub(super) scope: Scope,
    /// How many controllers there are.
    copies: Copies,
    /// Whether Prometheus is told of them.
    monitor: Monitor,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Gate {
    On,
    Off,
}

#[derive(Debug, PartialEq, Eq)]
enum Definition {
    Ours,
    Theirs,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Scope {
    Cluster,
    Namespace(&'static str),
}

#[derive(Debug, PartialEq, Eq)]
enum Copies {
    One,
    Several,
}

#[derive(Debug, PartialEq, Eq)]
enum Monitor {
    Untold,
    Told,
}

impl Variant {
    /// The release's name.
    pub(super) const RELEASE: &'static str = "vmpool";
    /// The release's namespace.
    pub(super) const NAMESPACE: &'static str = "vmpool-system";

    const DEFAULT: Self = Self {
        name: "defaults",
        values: &[],
        gate: Gate::On,
        definition: Definition::Ours,
        scope: Scope::Cluster,
        copies: Copies::Several,
        monitor: Monitor::Untold,
    };

    /// The objects that this variant consists of, as `Kind/name`.
    pub(super) fn objects(&self) -> BTreeSet<&'static str> {
        let mut ids = BTreeSet::from([
            "ServiceAccount/vmpool-controller",
            "Deployment/vmpool-controller",
            "Role/vmpool-controller-lease",
            "RoleBinding/vmpool-controller-lease",
        ]);
        if self.gate == Gate::On {
            ids.extend(match self.scope {
                Scope::Cluster => ["ClusterRole/vmpool-controller", "ClusterRoleBinding/vmpool-controller"],
                Scope::Namespace(_) => ["Role/vmpool-controller", "RoleBinding/vmpool-controller"],
            });
            ids.extend(["ClusterRole/vmpool-viewer", "ClusterRole/vmpool-editor"]);
        }
        if self.definition == Definition::Ours {
            ids.insert("CustomResourceDefinition/virtualmachinepools.virtualization.deckhouse.io");
        }
        if self.copies == Copies::Several {
            ids.insert("PodDisruptionBudget/vmpool-controller");
        }
        if self.monitor == Monitor::Told {
            ids.insert("PodMonitor/vmpool-controller");
        }
        ids
    }
}

/// The variants that are rendered.
pub(super) const VARIANTS: &[Variant] = &[
    Variant::DEFAULT,
    Variant {
        name: "gate off",
        values: &["featureGates.VirtualMachinePool=false"],
        gate: Gate::Off,
        ..Variant::DEFAULT
    },
    Variant {
        name: "no definition",
        values: &["crds.install=false"],
        definition: Definition::Theirs,
        ..Variant::DEFAULT
    },
    Variant {
        name: "one namespace",
        values: &["watchNamespace=machines"],
        scope: Scope::Namespace("machines"),
        ..Variant::DEFAULT
    },
    Variant {
        name: "everything set",
        values: &[
            "controller.replicas=1",
            "image.digest=sha256:0000000000000000000000000000000000000000000000000000000000000000",
            "imagePullSecrets[0].name=pull",
            "serviceAccount.annotations.team=vm",
            "controller.extraArgs[0]=--debounce=200ms",
            "controller.extraEnv[0].name=TZ",
            "controller.extraEnv[0].value=UTC",
            "controller.podLabels.team=vm",
            "controller.podAnnotations.team=vm",
            "controller.nodeSelector.disk=ssd",
            "controller.tolerations[0].operator=Exists",
            "controller.priorityClassName=system-cluster-critical",
            "controller.log.level=info\\,vmpool_controller=debug",
            "featureGates.AllAlpha=true",
            "controller.metrics.podMonitor.enabled=true",
            "controller.metrics.podMonitor.labels.release=prometheus",
            "controller.metrics.podMonitor.interval=30s",
        ],
        copies: Copies::One,
        monitor: Monitor::Told,
        ..Variant::DEFAULT
    },
];
