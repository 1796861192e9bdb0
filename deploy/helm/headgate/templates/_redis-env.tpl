{{/* How the processes find their Redis; nothing with the memory store. */}}
{{- define "headgate.redisEnv" -}}
{{- $redis := .Values.redis -}}
{{- if eq .Values.store "redis" -}}
{{- if $redis.secretKeys.url -}}
- name: REDIS_URL
  valueFrom:
    secretKeyRef: { name: {{ $redis.existingSecret }}, key: url }
{{- else -}}
- { name: REDIS_URL, value: {{ $redis.url | default (printf "%s-redis:6379" (include "headgate.name" .)) | quote }} }
{{- end -}}
{{- if $redis.secretKeys.auth }}
# A file, not a variable: it is read again at every connect, so a changed password needs no restart.
- { name: REDIS_AUTH_FILE, value: /etc/headgate/redis/auth }
{{- end -}}
{{- if $redis.secretKeys.ca }}
- { name: REDIS_TLS_CACERT, value: /etc/headgate/redis/ca.crt }
{{- end -}}
{{- end -}}
{{- end -}}
