#!/bin/sh
# Starts one of several Redis servers that sentinels watch: as a replica of the primary that they name, and where there is no
# sentinel yet, the first host as primary. SELF is this server's host, HOSTS are all of them. Arguments go to redis-server.
set -eu
port=${REDIS_PORT:-6379}
sentinel_port=${SENTINEL_PORT:-26379}

# The host that the sentinels take for the primary; nothing if none of them answers.
primary_by_sentinels() {
  for host in $HOSTS; do
    found=$(timeout 2 redis-cli -h "$host" -p "$sentinel_port" --raw SENTINEL get-master-addr-by-name headgate 2>/dev/null |
      head -n 1) || found=
    if [ -n "$found" ]; then
      echo "$found"
      return
    fi
  done
}

primary=$(primary_by_sentinels)
# A server that starts is empty, and as primary it would empty its replicas: it waits until another server is primary.
# If that takes too long, there is no other.
waited=0
while [ "$primary" = "$SELF" ] && [ "$waited" -lt "${WAIT_SECONDS_MAX:-30}" ]; do
  sleep 1
  waited=$((waited + 1))
  primary=$(primary_by_sentinels)
done
: "${primary:=${HOSTS%% *}}"
if [ "$primary" != "$SELF" ]; then
  set -- "$@" --replicaof "$primary" "$port"
fi
exec redis-server --port "$port" --dir "${DATA_DIR:-/data}" --protected-mode no --repl-diskless-sync-delay 0 \
  --replica-announce-ip "$SELF" "$@"
