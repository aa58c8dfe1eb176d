{{/* The flags of the controller, as a YAML list. The Deployment has them, and the Job that removes the finalizers. */}}
{{- define "vmpool.controller.args" -}}
{{- $controller := .Values.controller }}
{{- $_ := include "vmpool.wrappers" . }}
{{- $_ = include "vmpool.controller.checkLease" $controller }}
{{- $args := list }}
{{- with .Values.watchNamespace }}
{{- $args = append $args (printf "--watch-namespace=%s" .) }}
{{- end }}
{{- $args = concat $args (list
  (printf "--lease-namespace=%s" .Release.Namespace)
  "--lease-name=vmpool-controller"
  (printf "--platforms=%s" (include "vmpool.platforms" .))
  (printf "--lease-duration=%s" $controller.lease.duration)
  (printf "--lease-renew-interval=%s" $controller.lease.renewInterval)
  (printf "--workers=%v" $controller.workers)
  (printf "--max-in-flight-writes=%v" $controller.maxInFlightWrites)
  (printf "--max-pool-series=%v" $controller.maxPoolSeries)
) }}
{{- if $controller.maxProvisioningPerStorageClass }}
{{- if not .Values.featureGates.ProvisioningLimit }}
{{- fail "controller.maxProvisioningPerStorageClass requires featureGates.ProvisioningLimit" }}
{{- end }}
{{- $args = append $args (printf "--max-provisioning-per-storage-class=%v" $controller.maxProvisioningPerStorageClass) }}
{{- end }}
{{- if $controller.imageNamespaces }}
{{- if not (include "vmpool.imageRefresh" .) }}
{{- fail "controller.imageNamespaces requires featureGates.ImageRefresh" }}
{{- end }}
{{- $args = append $args (printf "--image-namespaces=%s" (join "," $controller.imageNamespaces)) }}
{{- end }}
{{- if and (ne $controller.kubevirtMetrics "auto") (include "vmpool.kubevirt" .) }}
{{- $args = append $args (printf "--kubevirt-metrics=%s" $controller.kubevirtMetrics) }}
{{- end }}
{{- if and (ne $controller.kubevirtConditions "auto") (include "vmpool.kubevirt" .) }}
{{- $args = append $args (printf "--kubevirt-conditions=%s" $controller.kubevirtConditions) }}
{{- end }}
{{- if include "vmpool.standalone" . }}
{{- $args = append $args "--instancetype-mode=Standalone" }}
{{- $args = append $args (printf "--instancetype-reference-policy=%s" .Values.instancetype.referencePolicy) }}
{{- end }}
{{- if include "vmpool.images" . }}
{{- $images := .Values.diskImage }}
{{- $args = concat $args (list
  (printf "--disk-image-max-concurrent-syncs=%v" $images.maxConcurrentSyncs)
  (printf "--disk-image-max-concurrent-syncs-per-namespace=%v" $images.maxConcurrentSyncsPerNamespace)
  (printf "--disk-image-max-attempt-duration=%s" $images.maxAttemptDuration)
  (printf "--disk-image-max-attempt-restarts=%v" $images.maxAttemptRestarts)
  (printf "--disk-image-backoff-unit=%s" $images.backoffUnit)
  (printf "--disk-image-max-backoff=%s" $images.maxBackoff)
  (printf "--disk-image-max-sync-duration=%s" $images.maxSyncDuration)
  (printf "--disk-image-snapshot-timeout=%s" $images.snapshotTimeout)
  (printf "--disk-image-snapshot-unready-grace=%s" $images.snapshotUnreadyGrace)
  (printf "--disk-image-resync-period=%s" $images.resyncPeriod)
  (printf "--disk-image-copy-label-prefixes=%s" (join "," $images.copyLabelPrefixes))
) }}
{{- with $images.allowedUrlPrefixes }}
{{- $args = append $args (printf "--disk-image-allowed-url-prefixes=%s" (join "," .)) }}
{{- end }}
{{- end }}
{{- toYaml $args }}
{{- end }}

{{/* The milliseconds of a duration such as 1m30s. */}}
{{- define "vmpool.milliseconds" -}}
{{- $start := toDate "2006-01-02" "2000-01-01" -}}
{{- sub ($start | mustDateModify .).UnixMilli $start.UnixMilli -}}
{{- end }}

{{/*
Fails for a lease with which the controller exits: JSON Schema cannot compare durations. Takes the values of the controller. As in
the program, the last flag of extraArgs has priority. Deadlines from the environment are not known here.
*/}}
{{- define "vmpool.controller.checkLease" -}}
{{- $used := dict "lease-duration" .lease.duration "lease-renew-interval" .lease.renewInterval "request-deadline" "8s" -}}
{{- range .extraEnv -}}
{{- if eq .name "VMPOOL_REQUEST_DEADLINE" -}}
{{- $_ := set $used "request-deadline" "0s" -}}
{{- end -}}
{{- end -}}
{{- range .extraArgs -}}
{{- $flag := splitn "=" 2 (trimPrefix "--" .) -}}
{{- if hasKey $used $flag._0 -}}
{{- $_ := set $used $flag._0 $flag._1 -}}
{{- end -}}
{{- end -}}
{{- $duration := get $used "lease-duration" -}}
{{- $interval := get $used "lease-renew-interval" -}}
{{- $deadline := get $used "request-deadline" -}}
{{- $lease := include "vmpool.milliseconds" $duration | int64 -}}
{{- $renewal := include "vmpool.milliseconds" $interval | int64 -}}
{{- if gt (mul 3 $renewal) $lease -}}
{{- fail (printf "controller.lease.renewInterval (%s) must be at most a third of controller.lease.duration (%s)" $interval $duration) -}}
{{- end -}}
{{- if ge (include "vmpool.milliseconds" $deadline | int64) (sub $lease (mul 2 $renewal)) -}}
{{- fail (printf "controller.lease.duration (%s) must be longer than two controller.lease.renewInterval (%s) and --request-deadline (%s) together, otherwise no write could start. Raise the duration, or set a shorter --request-deadline in controller.extraArgs" $duration $interval $deadline) -}}
{{- end -}}
{{- end }}
