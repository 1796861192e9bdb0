#!/bin/sh
# Before a primary of the cluster stops: has one of its replicas take over, so that nobody has to find out that it is gone, and
# nothing is forgotten. SELF is this server's host. Ends after ten seconds at most, whatever came of it.
port=${REDIS_PORT:-6379}
waited=0
while [ "$waited" -lt 10 ]; do
  # Lines: id, address, flags, the primary's id, and after four more the slots.
  replica=$(timeout 5 redis-cli -h "$SELF" -p "$port" --raw CLUSTER NODES 2>/dev/null | awk '
    $3 ~ /myself/ && $3 ~ /master/ && NF > 8 { me = $1 }
    $3 ~ /slave/ && $3 !~ /fail/ { address[$4] = $2 }
    END { if (me != "") print (me in address) ? address[me] : "none" }')
  # Not a primary, or not any more.
  [ -z "$replica" ] && exit 0
  address=${replica%%@*}
  [ "$replica" != none ] && timeout 5 redis-cli -h "${address%:*}" -p "$port" CLUSTER FAILOVER >/dev/null 2>&1
  sleep 1
  waited=$((waited + 1))
done
