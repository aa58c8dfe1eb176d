{{/*
The Deployment of one program. Takes a dict of root, component and args, the flags that only this program has.

A program that serves requests (webhook, apiserver) has a port in its values. All of its replicas serve requests, so a rolling
update creates the new pod first. A terminating pod continues to serve for drainSeconds, because kube-proxy and the API server
notice the termination after a delay.
*/}}
{{- define "vmpool.deployment" -}}
{{- $root := .root }}
{{- $own := get $root.Values .component }}
{{- $serves := hasKey $own "port" }}
{{- if and $serves (ge (int $own.drainSeconds) (int $own.terminationGracePeriodSeconds)) }}
{{- fail (printf "%s.drainSeconds (%v) must be less than %s.terminationGracePeriodSeconds (%v)" .component $own.drainSeconds .component $own.terminationGracePeriodSeconds) }}
{{- end }}
{{- if and $serves (eq (int $own.port) (int $own.healthPort)) }}
{{- fail (printf "%s.port and %s.healthPort are both %v" .component .component $own.port) }}
{{- end }}
{{- if $own.hostNetwork }}
{{- $ports := list }}
{{- range $other := splitList "," (include "vmpool.components" $root) }}
{{- $values := get $root.Values $other }}
{{- if $values.hostNetwork }}
{{- $ports = concat $ports (list $values.healthPort $values.port | compact) }}
{{- end }}
{{- end }}
{{- if ne (len $ports) (len ($ports | uniq)) }}
{{- fail (printf "programs with hostNetwork share the ports of their node, so they need different ones: %s" (join ", " $ports)) }}
{{- end }}
{{- end }}
{{- $mounted := and $serves (eq $root.Values.certificates.mode "CertManager") }}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ include "vmpool.name" . }}
  namespace: {{ $root.Release.Namespace }}
  {{- with include "vmpool.annotations" (dict "root" $root "own" $own.deploymentAnnotations) }}{{ . | nindent 2 }}{{ end }}
  labels:
    {{- include "vmpool.labels.with" (dict "base" (include "vmpool.labels" .) "more" $own.deploymentLabels) | nindent 4 }}
spec:
  replicas: {{ $own.replicas }}
  revisionHistoryLimit: {{ $own.revisionHistoryLimit }}
  {{- if $own.strategy }}
  strategy:
    {{- toYaml $own.strategy | nindent 4 }}
  {{- else if $serves }}
  strategy:
    type: RollingUpdate
    rollingUpdate:
      maxUnavailable: 0
      maxSurge: 1
  {{- end }}
  selector:
    matchLabels:
      {{- include "vmpool.selector" . | nindent 6 }}
  template:
    metadata:
      labels:
        {{- include "vmpool.labels.with" (dict "base" (include "vmpool.labels" .) "more" $own.podLabels) | nindent 8 }}
      {{- $annotations := merge (dict) ($own.podAnnotations | default dict) (dict "kubectl.kubernetes.io/default-container" .component) }}
      {{- include "vmpool.annotations" (dict "root" $root "own" $annotations) | nindent 6 }}
    spec:
      serviceAccountName: {{ include "vmpool.account" . }}
      automountServiceAccountToken: true
      enableServiceLinks: false
      terminationGracePeriodSeconds: {{ $own.terminationGracePeriodSeconds }}
      {{- with include "vmpool.imagePullSecrets" $root }}
      imagePullSecrets:
        {{- . | nindent 8 }}
      {{- end }}
      {{- with include "vmpool.network" $own | trim }}
      {{- . | nindent 6 }}
      {{- end }}
      securityContext:
        {{- include "vmpool.podSecurityContext" $root | nindent 8 }}
      containers:
        - name: {{ .component }}
          image: {{ include "vmpool.image" . | quote }}
          imagePullPolicy: {{ $root.Values.image.pullPolicy }}
          args:
            - --feature-gates={{ include "vmpool.featureGates" $root }}
            {{- range .args }}
            - {{ . | quote }}
            {{- end }}
            {{- if $serves }}
            - {{ printf "--listen-address=%s" (include "vmpool.listen" (dict "root" $root "port" $own.port)) | quote }}
            {{- if $mounted }}
            - --tls-cert-file=/etc/vmpool/tls/tls.crt
            - --tls-private-key-file=/etc/vmpool/tls/tls.key
            {{- else }}
            - --tls-secret={{ $root.Release.Namespace }}/{{ include "vmpool.tlsSecret" . }}
            - --tls-dns-names={{ include "vmpool.dnsName" . }}
            - --tls-validity={{ $root.Values.certificates.validity }}
            {{- range .bundles }}
            - --ca-bundle-of={{ . }}
            {{- end }}
            {{- end }}
            {{- end }}
            - {{ printf "--health-address=%s" (include "vmpool.listen" (dict "root" $root "port" $own.healthPort)) | quote }}
            {{- if $root.Values.metrics.authorization }}
            - --metrics-authorization
            {{- end }}
            - --log-format={{ $own.log.format }}
            {{- with $own.log.level }}
            - {{ printf "--log-level=%s" . | quote }}
            {{- end }}
            {{- with $own.extraArgs }}
            {{- toYaml . | nindent 12 }}
            {{- end }}
          {{- with $own.extraEnv }}
          env:
            {{- toYaml . | nindent 12 }}
          {{- end }}
          ports:
            - name: health
              containerPort: {{ $own.healthPort }}
            {{- if $serves }}
            - name: https
              containerPort: {{ $own.port }}
            {{- end }}
          livenessProbe:
            httpGet:
              path: /livez
              port: health
            {{- include "vmpool.probe" (merge (dict "timeoutSeconds" $root.Values.probes.timeoutSeconds) $root.Values.probes.liveness) | nindent 12 }}
          # When this passes, a rolling update continues, and a drain can evict the next pod.
          readinessProbe:
            httpGet:
              path: /readyz
              port: health
            {{- include "vmpool.probe" (merge (dict "timeoutSeconds" $root.Values.probes.timeoutSeconds) $root.Values.probes.readiness) | nindent 12 }}
          {{- if $serves }}
          lifecycle:
            preStop:
              sleep:
                seconds: {{ $own.drainSeconds }}
          {{- end }}
          resources:
            {{- toYaml $own.resources | nindent 12 }}
          securityContext:
            {{- include "vmpool.containerSecurityContext" $root | nindent 12 }}
          {{- if or $mounted .clients $own.extraVolumeMounts }}
          volumeMounts:
            {{- if $mounted }}
            - name: tls
              mountPath: /etc/vmpool/tls
              readOnly: true
            {{- end }}
            {{- if .clients }}
            - name: clients
              mountPath: /etc/vmpool/clients
              readOnly: true
            {{- end }}
            {{- with $own.extraVolumeMounts }}
            {{- toYaml . | nindent 12 }}
            {{- end }}
          {{- end }}
        {{- with $own.extraContainers }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      {{- if or $mounted .clients $own.extraVolumes }}
      volumes:
        {{- if $mounted }}
        - name: tls
          secret:
            secretName: {{ include "vmpool.tlsSecret" . }}
            # The user of the process has any number, for example in OpenShift. Only this pod has the volume.
            defaultMode: 0444
        {{- end }}
        {{- if .clients }}
        - name: clients
          configMap:
            name: vmpool-webhook-clients
        {{- end }}
        {{- with $own.extraVolumes }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      {{- end }}
      {{- with include "vmpool.placement" $own | trim }}
      {{- . | nindent 6 }}
      {{- end }}
      topologySpreadConstraints:
        {{- if $own.topologySpreadConstraints }}
        {{- toYaml $own.topologySpreadConstraints | nindent 8 }}
        {{- else }}
        {{- $context := . }}
        {{- range list "kubernetes.io/hostname" "topology.kubernetes.io/zone" }}
        - topologyKey: {{ . }}
          maxSkew: 1
          whenUnsatisfiable: ScheduleAnyway
          # Only pods of this version count, and not those that a rolling update replaces.
          matchLabelKeys: [pod-template-hash]
          labelSelector:
            matchLabels:
              {{- include "vmpool.selector" $context | nindent 14 }}
        {{- end }}
        {{- end }}
{{- end }}

{{/* Without a user: the images have one, and OpenShift chooses one from the range of the namespace. */}}
{{- define "vmpool.podSecurityContext" -}}
{{ toYaml .Values.podSecurityContext }}
{{- end }}

{{- define "vmpool.containerSecurityContext" -}}
{{ toYaml .Values.containerSecurityContext }}
{{- end }}

{{/* The times and thresholds of a probe. */}}
{{- define "vmpool.probe" -}}
periodSeconds: {{ .periodSeconds }}
timeoutSeconds: {{ .timeoutSeconds }}
failureThreshold: {{ .failureThreshold }}
{{- with .initialDelaySeconds }}
initialDelaySeconds: {{ . }}
{{- end }}
{{- end }}

{{/* The network of the pods of one program. Takes the values of the program. */}}
{{- define "vmpool.network" -}}
{{- if .hostNetwork }}
hostNetwork: true
{{- end }}
{{- with .dnsPolicy | default (.hostNetwork | ternary "ClusterFirstWithHostNet" "") }}
dnsPolicy: {{ . }}
{{- end }}
{{- with .dnsConfig }}
dnsConfig:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* Where the pods of one program run. Takes the values of the program. */}}
{{- define "vmpool.placement" -}}
{{- with .priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
