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
{{- $mounted := and $serves (eq $root.Values.certificates.mode "CertManager") }}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ include "vmpool.name" . }}
  namespace: {{ $root.Release.Namespace }}
  labels:
    {{- include "vmpool.labels" . | nindent 4 }}
spec:
  replicas: {{ $own.replicas }}
  {{- if $serves }}
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
        {{- include "vmpool.labels" . | nindent 8 }}
        {{- with $own.podLabels }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      annotations:
        kubectl.kubernetes.io/default-container: {{ .component }}
        {{- with $own.podAnnotations }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
    spec:
      serviceAccountName: {{ include "vmpool.name" . }}
      automountServiceAccountToken: true
      enableServiceLinks: false
      terminationGracePeriodSeconds: {{ $own.terminationGracePeriodSeconds }}
      {{- with $root.Values.imagePullSecrets }}
      imagePullSecrets:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      securityContext:
        {{- include "vmpool.podSecurityContext" $root | nindent 8 }}
        {{- if $mounted }}
        # The group of the process can read the key.
        fsGroup: 65532
        {{- end }}
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
            - --listen-address=0.0.0.0:{{ $own.port }}
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
            - --health-address=0.0.0.0:{{ $own.healthPort }}
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
            periodSeconds: 10
            timeoutSeconds: {{ $root.Values.probes.timeoutSeconds }}
            failureThreshold: 3
          # When this passes, a rolling update continues, and a drain can evict the next pod.
          readinessProbe:
            httpGet:
              path: /readyz
              port: health
            periodSeconds: 2
            timeoutSeconds: {{ $root.Values.probes.timeoutSeconds }}
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
          {{- if or $mounted .clients }}
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
          {{- end }}
      {{- if or $mounted .clients }}
      volumes:
        {{- if $mounted }}
        - name: tls
          secret:
            secretName: {{ include "vmpool.tlsSecret" . }}
            defaultMode: 0440
        {{- end }}
        {{- if .clients }}
        - name: clients
          configMap:
            name: vmpool-webhook-clients
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

{{- define "vmpool.podSecurityContext" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{- define "vmpool.containerSecurityContext" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
runAsNonRoot: true
capabilities:
  drop: [ALL]
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
