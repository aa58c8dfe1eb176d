//! The variants of the chart that are rendered and checked.

use std::collections::BTreeSet;

/// One set of values to render the chart with.
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "independent values of the chart")]
pub(super) struct Variant {
    /// The name in messages.
    pub(super) name: String,
    /// Values in the syntax of `--set`.
    pub(super) values: Vec<String>,
    /// Whether the feature gate VirtualMachinePool is on.
    pub(super) gate: bool,
    /// Whether cert-manager issues the certificates instead of the programs.
    pub(super) cert_manager: bool,
    /// The only watched namespace, if there is one.
    pub(super) namespace: Option<&'static str>,
    /// Whether the platform's API group is served, too.
    pub(super) platform_group: bool,
    /// Whether the pools of DVP are reconciled.
    pub(super) dvp: bool,
    /// Whether the pools of KubeVirt are reconciled.
    pub(super) kubevirt: bool,
    /// Whether the feature gate DiskImages is on.
    pub(super) images: bool,
    /// Whether vmpool validates instance types.
    pub(super) standalone: bool,
    /// Whether the feature gate MachineWrapper is on.
    pub(super) wrappers: bool,
    /// Whether the feature gate PoolAutoscaler is on.
    pub(super) autoscalers: bool,
    /// Whether the feature gate StandbyMachines is on.
    pub(super) standby: bool,
    /// Whether the feature gate ImageRefresh is on.
    pub(super) image_refresh: bool,
    /// Whether the controller finds the platforms. The rendered chart sees none in a cluster.
    auto: bool,
    /// Whether the chart installs the CRD.
    definition: bool,
    /// Whether each program has several replicas.
    several: bool,
    /// The kind of monitor that the chart creates.
    monitor: Option<&'static str>,
    /// Whether the chart creates alerts and the dashboard.
    alerts: bool,
    /// Whether the chart creates roles for users.
    people: bool,
    /// Whether the chart creates network policies.
    policies: bool,
    /// The webhook answers clients with a certificate only.
    clients: bool,
    /// Whether the metrics require a token.
    pub(super) metrics_authorization: bool,
}

/// The programs.
pub(super) const PROGRAMS: [&str; 3] = ["vmpool-controller", "vmpool-webhook", "vmpool-apiserver"];

/// The programs that serve requests and have a certificate.
pub(super) const SERVERS: [&str; 2] = ["vmpool-webhook", "vmpool-apiserver"];

/// The APIService of the project's own group.
pub(super) const OWN_GROUP: &str = "v1alpha1.subresources.vmpool.dev";

/// The APIService of the project's own group for pools of KubeVirt.
pub(super) const KUBEVIRT_GROUP: &str = "v1alpha1.kubevirt.subresources.vmpool.dev";

/// The APIServices of KubeVirt's own group, for clusters without KubeVirt.
const REFERENCE_GROUPS: [&str; 2] = ["v1.subresources.kubevirt.io", "v1alpha3.subresources.kubevirt.io"];

/// The APIService of the platform's group.
pub(super) const PLATFORM_GROUP: &str = "v1alpha2.subresources.virtualization.deckhouse.io";

impl Variant {
    /// The release's name.
    pub(super) const RELEASE: &'static str = "vmpool";
    /// The release's namespace.
    pub(super) const NAMESPACE: &'static str = "vmpool-system";
    /// The namespace whose images pools of other namespaces follow.
    pub(super) const IMAGE_NAMESPACE: &'static str = "golden";

    pub(super) fn defaults() -> Self {
        Self {
            name: "defaults".to_owned(),
            values: Vec::new(),
            gate: true,
            cert_manager: false,
            namespace: None,
            platform_group: false,
            dvp: true,
            kubevirt: true,
            images: false,
            standalone: false,
            wrappers: false,
            autoscalers: false,
            standby: false,
            image_refresh: false,
            auto: true,
            definition: true,
            several: true,
            monitor: None,
            alerts: false,
            people: true,
            policies: true,
            clients: false,
            metrics_authorization: true,
        }
    }

    fn named(mut self, name: &str) -> Self {
        if self.values.is_empty() {
            name.clone_into(&mut self.name);
        } else {
            self.name = format!("{}, {name}", self.name);
        }
        self
    }

    fn set(mut self, values: &[&str]) -> Self {
        self.values.extend(values.iter().map(|value| (*value).to_owned()));
        self
    }

    pub(super) fn gate_off(self) -> Self {
        Self { gate: false, ..self.named("gate off").set(&["featureGates.VirtualMachinePool=false"]) }
    }

    pub(super) fn with_dvp_only(self) -> Self {
        let values = ["platforms.dvp.enabled=true", "platforms.kubevirt.enabled=false"];
        Self { kubevirt: false, auto: false, ..self.named("DVP only").set(&values) }
    }

    fn with_kubevirt(self) -> Self {
        let values = ["platforms.dvp.enabled=true", "platforms.kubevirt.enabled=true"];
        Self { auto: false, ..self.named("both platforms").set(&values) }
    }

    fn with_images(self) -> Self {
        let values =
            ["featureGates.DiskImages=true", "diskImage.allowedUrlPrefixes[0]=https://images.example/"];
        Self { images: true, ..self.with_kubevirt().named("images").set(&values) }
    }

    fn with_standalone(self) -> Self {
        Self {
            standalone: true,
            ..self.with_kubevirt().named("standalone").set(&["instancetype.mode=Standalone"])
        }
    }

    fn with_wrappers(self) -> Self {
        let images = self.with_images().named("wrappers").set(&["featureGates.MachineWrapper=true"]);
        Self { wrappers: true, ..images }
    }

    fn with_autoscalers(self) -> Self {
        Self { autoscalers: true, ..self.named("autoscalers").set(&["featureGates.PoolAutoscaler=true"]) }
    }

    fn with_standby(self) -> Self {
        Self { standby: true, ..self.named("standby machines").set(&["featureGates.StandbyMachines=true"]) }
    }

    fn with_image_refresh(self) -> Self {
        let values = ["featureGates.ImageRefresh=true", "controller.imageNamespaces[0]=golden"];
        Self { image_refresh: true, ..self.named("image refresh").set(&values) }
    }

    fn with_kubevirt_only(self) -> Self {
        let values = ["platforms.kubevirt.enabled=true", "platforms.dvp.enabled=false"];
        Self { dvp: false, auto: false, ..self.named("KubeVirt only").set(&values) }
    }

    /// The names of the APIServices.
    pub(super) fn groups(&self) -> Vec<&'static str> {
        let [v1, v1alpha3] = REFERENCE_GROUPS.map(|name| (self.standalone, name));
        let (own, platform) = ((self.dvp, OWN_GROUP), (self.platform_group, PLATFORM_GROUP));
        let groups = [own, platform, (self.kubevirt, KUBEVIRT_GROUP), v1, v1alpha3];
        groups.into_iter().filter(|(present, _)| *present).map(|(_, name)| name).collect()
    }

    fn with_cert_manager(self) -> Self {
        Self { cert_manager: true, ..self.named("cert-manager").set(&["certificates.mode=CertManager"]) }
    }

    fn in_one_namespace(self) -> Self {
        Self { namespace: Some("machines"), ..self.named("one namespace").set(&["watchNamespace=machines"]) }
    }

    fn watched_by(self, monitor: &'static str) -> Self {
        let values = [
            &format!("metrics.monitor={monitor}"),
            "metrics.prometheusRule.enabled=true",
            "metrics.grafanaDashboard.enabled=true",
        ];
        Self { monitor: Some(monitor), alerts: true, ..self.named(monitor).set(&values) }
    }

    /// Every combination of the values that determine which objects exist, then the other variants one by
    /// one.
    pub(super) fn all() -> Vec<Self> {
        let double = |variants: Vec<Self>, change: fn(Self) -> Self| -> Vec<Self> {
            variants.into_iter().flat_map(|variant| [variant.clone(), change(variant)]).collect()
        };
        let mut all = vec![Self::defaults()];
        all = double(all, Self::gate_off);
        all = double(all, Self::with_cert_manager);
        all = double(all, Self::in_one_namespace);
        all = double(all, |variant| variant.watched_by("PodMonitor"));
        let others = [
            Self::defaults().watched_by("ServiceMonitor"),
            Self {
                definition: false,
                ..Self::defaults().with_kubevirt().named("no definition").set(&["crds.install=false"])
            },
            Self { people: false, ..Self::defaults().named("no roles").set(&["userRoles.create=false"]) },
            Self {
                policies: false,
                ..Self::defaults().named("no policies").set(&["networkPolicy.enabled=false"])
            },
            Self { metrics_authorization: false, ..Self::defaults().watched_by("ServiceMonitor") }
                .named("no authorization of metrics")
                .set(&["metrics.authorization=false"]),
            Self::defaults().with_kubevirt(),
            Self::defaults().with_kubevirt().in_one_namespace(),
            Self::defaults().with_dvp_only(),
            Self::defaults().with_dvp_only().in_one_namespace(),
            Self::defaults().with_dvp_only().gate_off(),
            Self::defaults().with_dvp_only().with_cert_manager(),
            Self::defaults().with_images(),
            Self::defaults().with_images().in_one_namespace(),
            Self::defaults().with_standalone(),
            Self::defaults().with_standalone().in_one_namespace(),
            Self::defaults().with_standalone().with_cert_manager(),
            Self::defaults().with_wrappers(),
            Self::defaults().with_wrappers().in_one_namespace(),
            Self::defaults().with_autoscalers(),
            Self::defaults().with_kubevirt().with_autoscalers().in_one_namespace(),
            Self::defaults().with_standby(),
            Self::defaults().with_kubevirt().with_standby().in_one_namespace(),
            Self::defaults().with_image_refresh(),
            Self::defaults().with_kubevirt().with_image_refresh().in_one_namespace(),
            Self::defaults().with_kubevirt_only(),
            Self::defaults().with_kubevirt_only().with_cert_manager(),
            Self::defaults().with_kubevirt().named("extra flags").set(&[
                "controller.extraArgs[0]=--debounce=200ms",
                "controller.extraArgs[1]=--request-deadline=3s",
                "controller.lease.duration=6s",
                "controller.lease.renewInterval=1s",
                "controller.log.level=warn\\, kube::client=debug\\,vmpool_controller::pools",
                "controller.extraEnv[0].name=TZ",
                "controller.extraEnv[0].value=UTC",
                "controller.podLabels.team=vm",
            ]),
            Self {
                platform_group: true,
                ..Self::defaults()
                    .with_dvp_only()
                    .named("platform's group")
                    .set(&["apiserver.platformGroup=true"])
            },
            Self {
                several: false,
                clients: true,
                standby: true,
                ..Self::defaults().watched_by("PodMonitor")
            }
            .named("everything set")
            .set(EVERYTHING),
        ];
        all.extend(others);
        all
    }

    /// The expected objects of this variant, as `Kind/name`.
    pub(super) fn objects(&self) -> BTreeSet<String> {
        const CLUSTER: &[&str] = &["ClusterRole", "ClusterRoleBinding"];
        const NAMESPACED: &[&str] = &["Role", "RoleBinding"];
        let mut ids = BTreeSet::new();
        let mut add = |present: bool, kinds: &[&str], name: &str| {
            ids.extend(kinds.iter().filter(|_| present).map(|kind| format!("{kind}/{name}")));
        };
        for program in PROGRAMS {
            add(true, &["ServiceAccount", "Deployment"], program);
            add(self.several, &["PodDisruptionBudget"], program);
            add(self.policies, &["NetworkPolicy"], program);
            add(self.gate, CLUSTER, program);
            add(self.metrics_authorization, CLUSTER, &format!("{program}-metrics"));
            add(self.gate && self.namespace.is_some(), NAMESPACED, program);
        }
        add(self.image_refresh && self.namespace.is_some(), NAMESPACED, "vmpool-controller-images");
        for server in SERVERS {
            add(true, &["Service"], server);
            add(!self.cert_manager, NAMESPACED, &format!("{server}-tls"));
            add(self.cert_manager, &["Certificate"], server);
            add(
                self.gate && !self.cert_manager,
                &["ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"],
                &format!("{server}-ca-bundle"),
            );
        }
        add(true, NAMESPACED, "vmpool-controller-lease");
        add(true, &["RoleBinding"], "vmpool-apiserver-authentication-reader");
        add(self.gate, &["ValidatingWebhookConfiguration"], "vmpool-webhook");
        add(self.gate && self.kubevirt, &["MutatingWebhookConfiguration"], "vmpool-webhook");
        add(self.gate && self.standalone && self.people, CLUSTER, "vmpool-cluster-instancetypes");
        let policy = &["ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"];
        add(self.gate, policy, "vmpool-claim-counts");
        add(self.gate, policy, "vmpool-claims");
        add(self.gate, policy, "vmpool-drains");
        add(self.gate, policy, "vmpool-scale");
        add(self.gate && self.standby, policy, "vmpool-standby");
        add(self.gate, policy, "vmpool-disk-sources");
        add(self.gate && self.kubevirt, policy, "vmpool-webhook-dry-run");
        add(self.gate && self.kubevirt, policy, "vmpool-copies");
        add(self.images, policy, "vmpool-clone-permissions");
        add(self.autoscalers, policy, "vmpool-autoscalers");
        for group in self.groups() {
            add(self.gate, &["APIService"], group);
        }
        for role in ["vmpool-viewer", "vmpool-editor", "vmpool-admin"] {
            add(self.gate && self.people, &["ClusterRole"], role);
        }
        add(self.cert_manager, &["Issuer", "Certificate"], "vmpool-ca");
        add(self.cert_manager, &["Issuer"], "vmpool-self-signed");
        add(self.gate && self.kubevirt, &["Job"], "vmpool-remove-finalizers");
        add(self.gate && self.kubevirt && self.policies, &["NetworkPolicy"], "vmpool-remove-finalizers");
        add(self.gate, &["ServiceAccount", "Pod", "Role", "RoleBinding"], "vmpool-doctor");
        add(self.gate, NAMESPACED, "vmpool-doctor-pools");
        add(self.gate, policy, "vmpool-doctor-dry-run");
        add(self.gate && self.policies, &["NetworkPolicy"], "vmpool-doctor");
        let definition = &["CustomResourceDefinition"];
        let pools = self.definition && !self.auto;
        add(pools && self.dvp, definition, "virtualmachinepools.virtualization.deckhouse.io");
        add(pools && self.kubevirt, definition, "virtualmachinepools.pool.kubevirt.io");
        for plural in ["vmdiskimagegrants", "vmdiskimages", "wrappedvirtualmachines"] {
            add(self.definition && self.images, definition, &format!("{plural}.vmpool.dev"));
        }
        add(self.definition && self.autoscalers, definition, "poolautoscalers.vmpool.dev");
        for kind in ["clusterinstancetypes", "clusterpreferences", "instancetypes", "preferences"] {
            let name = format!("virtualmachine{kind}.instancetype.kubevirt.io");
            add(self.definition && self.standalone, definition, &name);
        }
        add(self.clients, &["ConfigMap"], "vmpool-webhook-clients");
        add(self.monitor == Some("ServiceMonitor"), &["Service"], "vmpool-metrics");
        let reads = self.monitor.is_some() && self.metrics_authorization;
        add(self.metrics_authorization, &["ClusterRole"], "vmpool-metrics-reader");
        add(reads, &["ServiceAccount", "Secret", "ClusterRoleBinding"], "vmpool-metrics-reader");
        if let Some(monitor) = self.monitor {
            add(true, &[monitor], "vmpool");
        }
        add(self.alerts && self.gate, &["PrometheusRule"], "vmpool");
        add(self.alerts && self.gate, &["ConfigMap"], "vmpool-dashboard");
        ids
    }
}

/// Values that the other variants leave at their defaults.
const EVERYTHING: &[&str] = &[
    "controller.replicas=1",
    "webhook.replicas=1",
    "apiserver.replicas=1",
    "image.registry=registry.example/team/",
    "image.tag=v9",
    "imagePullSecrets[0].name=pull",
    "controller.image.digest=sha256:0000000000000000000000000000000000000000000000000000000000000000",
    "webhook.image.repository=registry.example/other/webhook",
    "serviceAccount.annotations.team=vm",
    "clusterFacts.sdn=true",
    "clusterFacts.machineCidrs=false",
    "certificates.validity=24h",
    "controller.extraArgs[0]=--debounce=200ms",
    "controller.extraEnv[0].name=TZ",
    "controller.extraEnv[0].value=UTC",
    "webhook.podLabels.team=vm",
    "apiserver.podAnnotations.team=vm",
    "controller.nodeSelector.disk=ssd",
    "webhook.tolerations[0].operator=Exists",
    "apiserver.priorityClassName=system-cluster-critical",
    "controller.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchFields[0].key=metadata.name",
    "controller.log.level=info\\,vmpool_controller=debug",
    "webhook.log.format=text",
    "webhook.port=9443",
    "webhook.clients.caBundle=-----BEGIN CERTIFICATE-----",
    "webhook.clients.names[0]=kube-apiserver",
    "apiserver.drainSeconds=1",
    "networkPolicy.apiServerFrom[0].ipBlock.cidr=10.0.0.10/32",
    "networkPolicy.metricsFrom[0].namespaceSelector.matchLabels.team=monitoring",
    "networkPolicy.egress[0].ports[0].port=6443",
    "featureGates.AllAlpha=true",
    "featureGates.ProvisioningLimit=true",
    "featureGates.StandbyMachines=true",
    "controller.maxProvisioningPerStorageClass=20",
    "metrics.labels.release=prometheus",
    "metrics.interval=30s",
    "metrics.prometheusRule.labels.release=prometheus",
    "metrics.prometheusRule.runbookUrl=https://runbooks.example/vmpool",
    "metrics.grafanaDashboard.annotations.folder=Virtualization",
    "podDisruptionBudget.maxUnavailable=50%",
    "doctor.afterInstall=true",
    "doctor.wait=5m",
    "doctor.nodeSelector.disk=ssd",
    "doctor.tolerations[0].operator=Exists",
];
