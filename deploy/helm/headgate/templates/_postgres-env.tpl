{{/* How the processes find their PostgreSQL; nothing with another store. */}}
{{- define "headgate.postgresEnv" -}}
{{- $postgres := .Values.postgres -}}
{{- if eq .Values.store "postgres" -}}
{{- if $postgres.secretKeys.url -}}
- name: POSTGRES_URL
  valueFrom:
    secretKeyRef: { name: {{ $postgres.existingSecret }}, key: url }
{{- else -}}
- { name: POSTGRES_URL, value: {{ $postgres.url | quote }} }
{{- end -}}
{{- if $postgres.secretKeys.password }}
# A file, not a variable: it is read again at every connect, so a changed password needs no restart.
- { name: POSTGRES_PASSWORD_FILE, value: /etc/headgate/postgres/password }
{{- end -}}
{{- if $postgres.secretKeys.ca }}
- { name: POSTGRES_TLS_CACERT, value: /etc/headgate/postgres/ca.crt }
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Whether its Secret is mounted as files. */}}
{{- define "headgate.mountsPostgresSecret" -}}
{{- if and (eq .Values.store "postgres") (or .Values.postgres.secretKeys.password .Values.postgres.secretKeys.ca) -}}true{{- end -}}
{{- end -}}
