{{/*
The names do not contain the name of the release. Audit rules, documentation and programs use the names of the accounts, so
they are always vmpool-controller, vmpool-webhook, vmpool-apiserver and vmpool-doctor. Templates for one program take a dict of root (the top
context) and component.
*/}}
{{- define "vmpool.name" -}}
vmpool-{{ .component }}
{{- end }}

{{/* The selector of the pods of one program. The selector of a Deployment cannot change, so it has few labels. */}}
{{- define "vmpool.selector" -}}
app.kubernetes.io/name: {{ include "vmpool.name" . }}
app.kubernetes.io/instance: {{ include "vmpool.instance" .root }}
{{- end }}

{{/* The selector of the pods of all three programs. */}}
{{- define "vmpool.selector.all" -}}
app.kubernetes.io/instance: {{ include "vmpool.instance" . }}
app.kubernetes.io/part-of: vmpool
{{- end }}

{{- define "vmpool.instance" -}}
{{ .Release.Name | trunc 63 | trimSuffix "-" }}
{{- end }}

{{/* The ServiceAccount of one program. */}}
{{- define "vmpool.account" -}}
{{ get .root.Values.serviceAccount.names .component | default (include "vmpool.name" .) }}
{{- end }}

{{/* The installed programs, and those of them that serve requests, with commas. */}}
{{- define "vmpool.components" -}}
controller,{{ include "vmpool.servers" . }}
{{- end }}
{{- define "vmpool.servers" -}}
webhook{{ if .Values.apiserver.enabled }},apiserver{{ end }}
{{- end }}

{{/* Labels of every object of one program. */}}
{{- define "vmpool.labels" -}}
{{ include "vmpool.selector" . }}
{{ include "vmpool.labels.common" .root }}
{{- end }}

{{/* Labels of objects that do not belong to a single program. */}}
{{- define "vmpool.labels.shared" -}}
app.kubernetes.io/name: vmpool
app.kubernetes.io/instance: {{ include "vmpool.instance" . }}
{{ include "vmpool.labels.common" . }}
{{- end }}

{{- define "vmpool.labels.common" -}}
app.kubernetes.io/part-of: vmpool
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* Labels with further ones, which have priority. Takes a dict of base (text) and more. */}}
{{- define "vmpool.labels.with" -}}
{{- if .more -}}
{{ toYaml (merge (dict) .more (fromYaml .base)) }}
{{- else -}}
{{ .base }}
{{- end -}}
{{- end }}

{{/* The field `annotations`: own annotations, which have priority, and common ones. Nothing without both. Takes a dict of root and own. */}}
{{- define "vmpool.annotations" -}}
{{- with merge (dict) (.own | default dict) (.root.Values.commonAnnotations | default dict) -}}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end -}}
{{- end }}

{{/* The secrets for the registry, as a YAML list; nothing without any. */}}
{{- define "vmpool.imagePullSecrets" -}}
{{- $secrets := list -}}
{{- range concat (dig "imagePullSecrets" list (.Values.global | default dict) | default list) .Values.imagePullSecrets -}}
{{- $secrets = append $secrets (kindIs "string" . | ternary (dict "name" .) .) -}}
{{- end -}}
{{- with $secrets | uniq -}}
{{ toYaml . }}
{{- end -}}
{{- end }}

{{/* The registry of the images. Fails without one: no image of vmpool is published, so a default could not be pulled. */}}
{{- define "vmpool.registry" -}}
{{- $registry := dig "imageRegistry" "" (.Values.global | default dict) | default .Values.image.registry | trimSuffix "/" -}}
{{- required "image.registry is required: no images of vmpool are published yet. Build and load them as docs/install.md#images describes, and set image.registry to their registry, for example --set image.registry=vmpool.local" $registry -}}
{{- end }}

{{/* An address to listen on. Takes a dict of root and port. */}}
{{- define "vmpool.listen" -}}
{{- $host := .root.Values.listenAddress -}}
{{ contains ":" $host | ternary (printf "[%s]" $host) $host }}:{{ .port }}
{{- end }}

{{/* The image of one program. Its name is that of the program, or else imageName of the dict. */}}
{{- define "vmpool.image" -}}
{{- $own := (get .root.Values .component).image -}}
{{- $repository := $own.repository -}}
{{- if not $repository -}}
{{- $repository = printf "%s/%s" (include "vmpool.registry" .root) (.imageName | default (include "vmpool.name" .)) -}}
{{- end -}}
{{- if $own.digest -}}
{{ $repository }}@{{ $own.digest }}
{{- else -}}
{{ $repository }}:{{ .root.Values.image.tag | default .root.Chart.AppVersion }}
{{- end -}}
{{- end }}

{{/* The full user name of a program's ServiceAccount. */}}
{{- define "vmpool.user" -}}
system:serviceaccount:{{ .root.Release.Namespace }}:{{ include "vmpool.account" . }}
{{- end }}

{{/* The gates as A=true,B=false, in a stable order, because range iterates over a map in the order of its keys. */}}
{{- define "vmpool.featureGates" -}}
{{- $gates := list -}}
{{- range $name, $on := .Values.featureGates -}}
{{- $gates = append $gates (printf "%s=%t" $name $on) -}}
{{- end -}}
{{- join "," $gates -}}
{{- end }}

{{/* "true" if the cluster serves the VirtualMachine of the platform now. Takes a dict of root and platform. */}}
{{- define "vmpool.isServed" -}}
{{- $kind := get (dict "dvp" "virtualization.deckhouse.io/v1alpha2/VirtualMachine" "kubevirt" "kubevirt.io/v1/VirtualMachine") .platform -}}
{{- if .root.Capabilities.APIVersions.Has $kind -}}
true
{{- end -}}
{{- end }}
{{/*
"true" if the chart contains what the platform needs: its value is `true`, or it is `auto`, and the controller or Helm finds the platform.
Takes a dict of root and platform.
*/}}
{{- define "vmpool.platform" -}}
{{- $enabled := toString (get .root.Values.platforms .platform).enabled -}}
{{- if or (eq $enabled "true") (and (eq $enabled "auto") (or .root.Values.platforms.auto (include "vmpool.isServed" .))) -}}
true
{{- end -}}
{{- end }}
{{/*
"true" if the platform's objects belong into the cluster now: its definition of pools, and its API group. With `auto`, the cluster may not
have the platform yet, or never. Takes a dict of root and platform.
*/}}
{{- define "vmpool.isPresent" -}}
{{- $enabled := toString (get .root.Values.platforms .platform).enabled -}}
{{- if or (eq $enabled "true") (and (eq $enabled "auto") (include "vmpool.isServed" .)) -}}
true
{{- end -}}
{{- end }}
{{- define "vmpool.dvp" -}}
{{ include "vmpool.platform" (dict "root" . "platform" "dvp") }}
{{- end }}
{{- define "vmpool.kubevirt" -}}
{{ include "vmpool.platform" (dict "root" . "platform" "kubevirt") }}
{{- end }}

{{/* "true" if disk images are enabled. Fails without their platform. */}}
{{- define "vmpool.images" -}}
{{- if .Values.featureGates.DiskImages -}}
{{- if not (and .Values.featureGates.VirtualMachinePool (include "vmpool.kubevirt" .)) -}}
{{- fail "featureGates.DiskImages requires featureGates.VirtualMachinePool and platforms.kubevirt.enabled" -}}
{{- end -}}
true
{{- end -}}
{{- end }}

{{/* "true" if instance types and preferences keep a finalizer until their users have copies. */}}
{{- define "vmpool.protection" -}}
{{- if .Values.featureGates.VirtualMachinePool -}}
{{- include "vmpool.kubevirt" . -}}
{{- end -}}
{{- end }}

{{/*
The accounts of KubeVirt's own controller, as a JSON list: one in each namespace with a KubeVirt object, or in `kubevirt` if Helm
finds none, as in `helm template`.
*/}}
{{- define "vmpool.kubevirtControllers" -}}
{{- $users := list -}}
{{- if lookup "apiextensions.k8s.io/v1" "CustomResourceDefinition" "" "kubevirts.kubevirt.io" -}}
{{- range (lookup "kubevirt.io/v1" "KubeVirt" "" "").items -}}
{{- $users = append $users (printf "system:serviceaccount:%s:kubevirt-controller" .metadata.namespace) -}}
{{- end -}}
{{- end -}}
{{- $users | default (list "system:serviceaccount:kubevirt:kubevirt-controller") | uniq | toJson -}}
{{- end }}

{{/* "true" if vmpool, and not KubeVirt, validates instance types. Fails without their platform, and beside a KubeVirt. */}}
{{- define "vmpool.standalone" -}}
{{- if and .Values.featureGates.VirtualMachinePool (eq .Values.instancetype.mode "Standalone") -}}
{{- if not (include "vmpool.kubevirt" .) -}}
{{- fail "instancetype.mode Standalone requires platforms.kubevirt.enabled" -}}
{{- end -}}
{{- if lookup "apiextensions.k8s.io/v1" "CustomResourceDefinition" "" "kubevirts.kubevirt.io" -}}
{{- if (lookup "kubevirt.io/v1" "KubeVirt" "" "").items -}}
{{- fail "instancetype.mode is Standalone, but the cluster has a KubeVirt object, whose own webhooks and controller do the same. Set instancetype.mode to Coexist" -}}
{{- end -}}
{{- end -}}
true
{{- end -}}
{{- end }}

{{/* "true" if instance types are served in version v1, too. Fails where their definitions are KubeVirt's. */}}
{{- define "vmpool.instancetypeV1" -}}
{{- if .Values.featureGates.InstancetypeV1 -}}
{{- if not (include "vmpool.standalone" .) -}}
{{- fail "featureGates.InstancetypeV1 requires featureGates.VirtualMachinePool and instancetype.mode Standalone" -}}
{{- end -}}
true
{{- end -}}
{{- end }}

{{/* "true" if wrappers of machines are enabled. Fails without disk images. */}}
{{- define "vmpool.wrappers" -}}
{{- if .Values.featureGates.MachineWrapper -}}
{{- if not (include "vmpool.images" .) -}}
{{- fail "featureGates.MachineWrapper requires featureGates.DiskImages" -}}
{{- end -}}
true
{{- end -}}
{{- end }}

{{/* "true" if autoscalers of pools are enabled. Fails without pools. */}}
{{- define "vmpool.autoscalers" -}}
{{- if .Values.featureGates.PoolAutoscaler -}}
{{- if not .Values.featureGates.VirtualMachinePool -}}
{{- fail "featureGates.PoolAutoscaler requires featureGates.VirtualMachinePool" -}}
{{- end -}}
true
{{- end -}}
{{- end }}

{{/* "true" if the controller follows the images of pools. Fails without pools. */}}
{{- define "vmpool.imageRefresh" -}}
{{- if .Values.featureGates.ImageRefresh -}}
{{- if not .Values.featureGates.VirtualMachinePool -}}
{{- fail "featureGates.ImageRefresh requires featureGates.VirtualMachinePool" -}}
{{- end -}}
true
{{- end -}}
{{- end }}

{{/*
The platforms that the controller reconciles, with commas; `auto` if it finds them itself. Fails if there is none, except that without the
feature gate no platform is needed.
*/}}
{{- define "vmpool.platforms" -}}
{{- $values := .Values.platforms -}}
{{- if and $values.auto (eq (toString $values.dvp.enabled) "auto") (eq (toString $values.kubevirt.enabled) "auto") -}}
auto
{{- else -}}
{{- $platforms := list -}}
{{- if include "vmpool.dvp" . }}{{ $platforms = append $platforms "dvp" }}{{ end -}}
{{- if include "vmpool.kubevirt" . }}{{ $platforms = append $platforms "kubevirt" }}{{ end -}}
{{- if not (or $platforms .Values.featureGates.VirtualMachinePool) -}}
{{- $platforms = list "dvp" -}}
{{- end -}}
{{- if not $platforms -}}
{{- fail "no platform is enabled: set platforms.auto, platforms.dvp.enabled or platforms.kubevirt.enabled to true. If a platform is auto without platforms.auto, the cluster must serve its VirtualMachine" -}}
{{- end -}}
{{- join "," $platforms -}}
{{- end -}}
{{- end }}

{{/* The groups and APIServices of vmpool and of the platform. */}}
{{- define "vmpool.group.own" -}}
subresources.vmpool.dev
{{- end }}
{{- define "vmpool.group.kubevirt" -}}
kubevirt.subresources.vmpool.dev
{{- end }}
{{- define "vmpool.group.platform" -}}
subresources.virtualization.deckhouse.io
{{- end }}
{{- define "vmpool.apiservice.own" -}}
v1alpha1.{{ include "vmpool.group.own" . }}
{{- end }}
{{- define "vmpool.apiservice.kubevirt" -}}
v1alpha1.{{ include "vmpool.group.kubevirt" . }}
{{- end }}
{{/* The APIServices of KubeVirt's own group, with a comma. */}}
{{- define "vmpool.apiservice.reference" -}}
v1.subresources.kubevirt.io,v1alpha3.subresources.kubevirt.io
{{- end }}
{{/* The names of all APIServices of the release, with commas. */}}
{{- define "vmpool.apiservices" -}}
{{- $names := list -}}
{{- range list (include "vmpool.removalApiservices" .) (include "vmpool.referenceApiservices" .) -}}
{{- if . }}{{ $names = append $names . }}{{ end -}}
{{- end -}}
{{- join "," $names -}}
{{- end }}
{{/*
The names of those of KubeVirt's own group, with commas. In Standalone mode, vmpool serves the expansion of machines there. An APIService
of another owner stays as it is.
*/}}
{{- define "vmpool.referenceApiservices" -}}
{{- $names := list -}}
{{- $root := . -}}
{{- range $name := splitList "," (include "vmpool.apiservice.reference" .) -}}
{{- $holder := include "vmpool.apiservice.holder" (dict "root" $root "name" $name) -}}
{{- if eq $holder "taken" -}}
{{- include "vmpool.apiservice.taken" $name -}}
{{- else if and $root.Values.apiserver.enabled (include "vmpool.standalone" $root) (ne $holder "foreign") -}}
{{- $names = append $names $name -}}
{{- end -}}
{{- end -}}
{{- join "," $names -}}
{{- end }}
{{/* The names of the APIServices that serve targeted removal, with commas. */}}
{{- define "vmpool.removalApiservices" -}}
{{- $names := list -}}
{{- $serves := .Values.apiserver.enabled -}}
{{- if and $serves (include "vmpool.dvp" .) }}{{ $names = append $names (include "vmpool.apiservice.own" .) }}{{ end -}}
{{- if include "vmpool.platformGroup" . }}{{ $names = append $names (include "vmpool.apiservice.platform" .) }}{{ end -}}
{{- if and $serves (include "vmpool.kubevirt" .) }}{{ $names = append $names (include "vmpool.apiservice.kubevirt" .) }}{{ end -}}
{{- join "," $names -}}
{{- end }}
{{- define "vmpool.apiservice.platform" -}}
v1alpha2.{{ include "vmpool.group.platform" . }}
{{- end }}

{{/*
The holder of an APIService of a platform: "none", "own" (this release), "foreign", "taken" (the APIService belongs to this release, and
another client has changed its service) or "unknown" (Helm cannot read the cluster, as in `helm template`). Takes a dict of root and name.
*/}}
{{- define "vmpool.apiservice.holder" -}}
{{- if not (lookup "v1" "Namespace" "" "kube-system") -}}
unknown
{{- else -}}
{{- $found := lookup "apiregistration.k8s.io/v1" "APIService" "" .name -}}
{{- if not $found -}}
none
{{- else -}}
{{- $annotations := $found.metadata.annotations | default dict -}}
{{- $released := and (eq (get $annotations "meta.helm.sh/release-name") .root.Release.Name) (eq (get $annotations "meta.helm.sh/release-namespace") .root.Release.Namespace) -}}
{{- $service := $found.spec.service | default dict -}}
{{- $points := and (eq (get $service "name" | default "") "vmpool-apiserver") (eq (get $service "namespace" | default "") .root.Release.Namespace) -}}
{{- if and $released $points -}}
own
{{- else if $released -}}
taken
{{- else -}}
foreign
{{- end -}}
{{- end -}}
{{- end -}}
{{- end }}

{{/* Fails because of an APIService that is "taken". Takes its name. */}}
{{- define "vmpool.apiservice.taken" -}}
{{- fail (printf "APIService %s belongs to this release, but its service is now that of another API server. Helm would delete the APIService. Remove it from the release first: kubectl annotate apiservice %s helm.sh/resource-policy=keep meta.helm.sh/release-name- meta.helm.sh/release-namespace-" . .) -}}
{{- end }}

{{/* The holder of the platform's group. */}}
{{- define "vmpool.platformGroup.holder" -}}
{{- include "vmpool.apiservice.holder" (dict "root" . "name" (include "vmpool.apiservice.platform" .)) -}}
{{- end }}

{{/* "true" if vmpool serves the platform's group. Fails if that would overwrite or delete an APIService of another owner. */}}
{{- define "vmpool.platformGroup" -}}
{{- $wanted := toString .Values.apiserver.platformGroup -}}
{{- $holder := include "vmpool.platformGroup.holder" . -}}
{{- $name := include "vmpool.apiservice.platform" . -}}
{{- if eq $holder "taken" -}}
{{- include "vmpool.apiservice.taken" $name -}}
{{- else if not .Values.apiserver.enabled -}}
{{- else if not (and .Values.featureGates.VirtualMachinePool (include "vmpool.isPresent" (dict "root" . "platform" "dvp"))) -}}
{{- else if eq $wanted "false" -}}
{{- else if eq $holder "foreign" -}}
{{- if eq $wanted "true" -}}
{{- fail (printf "apiserver.platformGroup is true, but APIService %s belongs to another API server. Set apiserver.platformGroup to auto or false. vmpool serves scaledownwith in %s in any case" $name (include "vmpool.group.own" .)) -}}
{{- end -}}
{{- else if and (eq $holder "unknown") (eq $wanted "auto") -}}
{{- else -}}
true
{{- end -}}
{{- end }}

{{/* The Secret with the serving certificate of a program. */}}
{{- define "vmpool.tlsSecret" -}}
{{ include "vmpool.name" . }}-tls
{{- end }}

{{/* The DNS name that the API server uses for a program's Service. */}}
{{- define "vmpool.dnsName" -}}
{{ include "vmpool.name" . }}.{{ .root.Release.Namespace }}.svc
{{- end }}

{{/* The field `annotations` with which cert-manager puts its CA into a webhook configuration or an APIService. Takes a dict of root and
component. */}}
{{- define "vmpool.caInjection" -}}
{{- $own := dict -}}
{{- if eq .root.Values.certificates.mode "CertManager" }}
{{- $own = dict "cert-manager.io/inject-ca-from" (printf "%s/%s" .root.Release.Namespace (include "vmpool.name" .)) -}}
{{- end }}
{{- include "vmpool.annotations" (dict "root" .root "own" $own) -}}
{{- end }}
