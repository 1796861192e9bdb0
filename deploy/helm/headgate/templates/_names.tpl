{{/* Names and labels that several objects share. */}}

{{/* Name of everything: the release's, with the chart's in it once. */}}
{{- define "headgate.name" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* What selects Headgate's pods. Never changes within a release: a Deployment's selector can't. */}}
{{- define "headgate.selector" -}}
app.kubernetes.io/name: headgate
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: rate-limit
{{- end -}}

{{- define "headgate.labels" -}}
{{ include "headgate.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion }}
{{ include "headgate.chartLabels" . }}
{{- end -}}

{{- define "headgate.redisSelector" -}}
app.kubernetes.io/name: headgate
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: redis
{{- end -}}

{{- define "headgate.chartLabels" -}}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "headgate.rulesName" -}}
{{- .Values.existingRules | default (printf "%s-rules" (include "headgate.name" .)) -}}
{{- end -}}

{{/* Whether counts are kept on a volume. */}}
{{- define "headgate.keepsSnapshot" -}}
{{- if and (eq .Values.store "memory") .Values.snapshot.enabled -}}true{{- end -}}
{{- end -}}

{{/* Whether a Secret is mounted as files. */}}
{{- define "headgate.mountsSecret" -}}
{{- if and (eq .Values.store "redis") (or .Values.redis.secretKeys.auth .Values.redis.secretKeys.ca) -}}true{{- end -}}
{{- end -}}

{{/* Egress to the servers that resolve names; nothing without any. */}}
{{- define "headgate.dnsEgress" -}}
{{- range .Values.networkPolicy.dns }}
- to: {{- toYaml .to | nindent 4 }}
  ports:
    {{- range .ports }}
    - { port: {{ . }}, protocol: UDP }
    - { port: {{ . }}, protocol: TCP }
    {{- end }}
{{- end -}}
{{- end -}}
