#!/bin/sh
# Starts one of several sentinels, next to each Redis. It watches the primary that the others watch; where there is no other,
# the server that calls itself a primary. SELF is this sentinel's host, HOSTS are all of them. Arguments go to redis-server.
set -eu
port=${REDIS_PORT:-6379}
sentinel_port=${SENTINEL_PORT:-26379}
config=${DATA_DIR:-/data}/sentinel.conf

primary=
while [ -z "$primary" ]; do
  for host in $HOSTS; do
    [ "$host" = "$SELF" ] && continue
    primary=$(timeout 2 redis-cli -h "$host" -p "$sentinel_port" --raw SENTINEL get-master-addr-by-name headgate 2>/dev/null |
      head -n 1) || primary=
    [ -n "$primary" ] && break 2
  done
  for host in $HOSTS; do
    role=$(timeout 2 redis-cli -h "$host" -p "$port" --raw ROLE 2>/dev/null | head -n 1) || role=
    if [ "$role" = master ]; then
      primary=$host
      break 2
    fi
  done
  sleep 1
done

# An id made of the host's name: a sentinel that starts again is not one more.
id=$(printf %s "$SELF" | sha1sum | cut -c 1-40)
cat >"$config" <<END
port $sentinel_port
dir "${DATA_DIR:-/data}"
protected-mode no
sentinel myid $id
sentinel resolve-hostnames yes
sentinel announce-hostnames yes
sentinel announce-ip $SELF
sentinel monitor headgate $primary $port 2
sentinel down-after-milliseconds headgate ${DOWN_AFTER_MS:-3000}
sentinel failover-timeout headgate 5000
sentinel parallel-syncs headgate 1
END
exec redis-server "$config" --sentinel "$@"
