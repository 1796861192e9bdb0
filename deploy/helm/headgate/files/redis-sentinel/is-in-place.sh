#!/bin/sh
# Ends with 1 if this server should be started again: it does not answer, or it is a replica that has lost its primary while
# the sentinels name another one. They did not know it yet when they chose (they look for replicas every ten seconds), so
# nobody tells it; once started again it asks them. SELF is this server's host, HOSTS are all of them.
role=$(timeout 2 redis-cli -h "$SELF" -p "${REDIS_PORT:-6379}" --raw ROLE 2>/dev/null)
[ -n "$role" ] || exit 1
[ "$(echo "$role" | sed -n 1p)" = slave ] || exit 0
[ "$(echo "$role" | sed -n 4p)" = connected ] && exit 0
followed=$(echo "$role" | sed -n 2p)
for host in $HOSTS; do
  primary=$(timeout 2 redis-cli -h "$host" -p "${SENTINEL_PORT:-26379}" --raw SENTINEL get-master-addr-by-name headgate \
    2>/dev/null | head -n 1)
  [ -n "$primary" ] || continue
  [ "$primary" = "$followed" ] && exit 0
  exit 1
done
