#!/bin/sh
# Before a primary stops: has the sentinels make another server primary, so that nobody has to find out that this one is gone.
# SELF is this server's host, HOSTS are all of them. Ends after ten seconds at most, whatever came of it.
sentinel() {
  timeout 2 redis-cli -h "$1" -p "${SENTINEL_PORT:-26379}" --raw SENTINEL "$2" headgate 2>/dev/null | head -n 1
}

[ "$(timeout 2 redis-cli -h "$SELF" -p "${REDIS_PORT:-6379}" --raw ROLE 2>/dev/null | head -n 1)" = master ] || exit 0
waited=0
asked=
while [ "$waited" -lt 10 ]; do
  for host in $HOSTS; do
    # The sentinel next to this server stops as well.
    [ "$host" = "$SELF" ] && continue
    primary=$(sentinel "$host" get-master-addr-by-name)
    [ -n "$primary" ] && [ "$primary" != "$SELF" ] && exit 0
    # Refused while another change is under way, or no replica is in step: then again.
    [ -z "$asked" ] && [ "$(sentinel "$host" FAILOVER)" = OK ] && asked=yes
  done
  sleep 1
  waited=$((waited + 1))
done
