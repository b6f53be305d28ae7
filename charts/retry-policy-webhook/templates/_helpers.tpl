{{/* The labels of every object. */}}
{{- define "retry-policy-webhook.labels" -}}
app.kubernetes.io/name: retry-policy-webhook
app.kubernetes.io/part-of: retry-policy-webhook
{{- with .Values.labels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* The labels of the objects of manifests/base, and of the pods. */}}
{{- define "retry-policy-webhook.versioned-labels" -}}
{{ include "retry-policy-webhook.labels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- end }}

{{/* The labels of the objects that Prometheus selects. */}}
{{- define "retry-policy-webhook.prometheus-labels" -}}
{{ include "retry-policy-webhook.labels" . }}
{{- with .Values.prometheus.labels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* The image, by digest if there is one. */}}
{{- define "retry-policy-webhook.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}
{{- end }}
