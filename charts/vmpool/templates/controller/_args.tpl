{{/* The flags of the controller, as a YAML list. The Deployment has them, and the Job that removes the finalizers. */}}
{{- define "vmpool.controller.args" -}}
{{- $controller := .Values.controller }}
{{- $_ := include "vmpool.wrappers" . }}
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
