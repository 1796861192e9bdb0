{{/* How the processes find their Redis; nothing with the memory store. */}}
{{- define "headgate.redisEnv" -}}
{{- $redis := .Values.redis -}}
{{- if eq .Values.store "redis" -}}
{{- if $redis.secretKeys.url -}}
- name: REDIS_URL
  valueFrom:
    secretKeyRef: { name: {{ $redis.existingSecret }}, key: url }
{{- else -}}
- { name: REDIS_URL, value: {{ $redis.url | default (include "headgate.bundledRedisUrl" .) | quote }} }
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

{{/* Hosts of the bundled servers, as a list with blanks. */}}
{{- define "headgate.redisHosts" -}}
{{- $name := printf "%s-redis" (include "headgate.name" .) -}}
{{- $hosts := list -}}
{{- range until (eq .Values.redis.bundled.kind "cluster" | ternary 6 3) -}}
{{- $hosts = append $hosts (printf "%s-%d.%s" $name . $name) -}}
{{- end -}}
{{- join " " $hosts -}}
{{- end -}}

{{/* Where the bundled Redis is. */}}
{{- define "headgate.bundledRedisUrl" -}}
{{- $hosts := splitList " " (include "headgate.redisHosts" .) -}}
{{- if eq .Values.redis.bundled.kind "sentinel" -}}
redis-sentinel://{{ join ":26379," $hosts }}:26379/headgate
{{- else if eq .Values.redis.bundled.kind "cluster" -}}
redis-cluster://{{ join ":6379," $hosts }}:6379
{{- else -}}
{{ include "headgate.name" . }}-redis:6379
{{- end -}}
{{- end -}}

{{/* Ports that Headgate needs of it. */}}
{{- define "headgate.bundledRedisPorts" -}}
- { port: 6379, protocol: TCP }
{{- if eq .Values.redis.bundled.kind "sentinel" }}
- { port: 26379, protocol: TCP }
{{- end -}}
{{- end -}}
