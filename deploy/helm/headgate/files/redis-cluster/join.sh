#!/bin/sh
# Runs next to each Redis of a cluster and keeps it a member: makes the cluster if there is none, joins it if this server is
# new, becomes a replica where one is wanted most, also later, and forgets members whose pods are gone. Nothing is kept on disk, so a pod
# that is created again is a new member. SELF is this server's host, HOSTS are all of them, the first of which makes the cluster.
port=${REDIS_PORT:-6379}

ask() {
  host=$1
  shift
  timeout 5 redis-cli -h "$host" -p "$port" --raw "$@" 2>/dev/null
}

address_of() {
  getent ahosts "$1" | head -n 1 | cut -d ' ' -f 1
}

# How many members the server of that host knows, itself included; 0 if it does not answer.
members_of() {
  known=$(ask "$1" CLUSTER INFO | tr -d '\r' | sed -n 's/^cluster_known_nodes://p')
  echo "${known:-0}"
}

# A new server is alone. It meets anybody who is not; the first host makes the cluster if all are there and alone.
leave_solitude() {
  servers=
  alone=0
  for host in $HOSTS; do
    address=$(address_of "$host")
    known=$(members_of "$host")
    if [ "$known" -gt 1 ]; then
      ask "$SELF" CLUSTER MEET "$address" "$port" >/dev/null
      return
    fi
    [ "$known" -eq 1 ] && alone=$((alone + 1))
    servers="$servers $address:$port"
  done
  [ "$SELF" = "${HOSTS%% *}" ] && [ "$alone" -eq "$(echo "$HOSTS" | wc -w)" ] || return
  # Slots are given first; then it waits for all members, for ever if one of them goes meanwhile. Replicas place themselves.
  # shellcheck disable=SC2086
  timeout 20 redis-cli --cluster create $servers --cluster-replicas 1 --cluster-yes
}

# A primary without slots serves nobody: it follows the primary that has the fewest replicas. Servers that choose at one moment may
# all choose the same one. So a replica whose primary has another one, too, follows a primary that has none; of several, the one
# whose id comes first.
# Lines of CLUSTER NODES: id, address, flags, the primary's id, and after four more the slots.
take_a_place() {
  primary=$(ask "$SELF" CLUSTER NODES | awk '
    $3 ~ /fail|handshake|noaddr/ { next }
    $3 ~ /myself/ { self = $1; own = $4; is_idle = $3 ~ /master/ && NF <= 8 }
    $3 ~ /slave/ { replicas[$4]++; if (!($4 in first) || $1 "" < first[$4] "") first[$4] = $1 }
    $3 ~ /master/ && NF > 8 { primaries[$1] }
    END {
      for (id in primaries) if (best == "" || replicas[id] + 0 < replicas[best] + 0) best = id
      is_spare = own in primaries && replicas[own] > 1 && replicas[best] + 0 == 0 && first[own] == self
      if (is_idle || is_spare) print best
    }')
  [ -n "$primary" ] && ask "$SELF" CLUSTER REPLICATE "$primary" >/dev/null
}

# A member that failed will not come again if its address is known to nobody any more, is that of another member now, or is no
# host's. One that is only cut off will. Lines as above; the address ends before the @.
forget_the_gone() {
  addresses=" "
  for host in $HOSTS; do addresses="$addresses$(address_of "$host") "; done
  ask "$SELF" CLUSTER NODES | awk -v hosts="$addresses" '
    { sub(/@.*/, "", $2) }
    $3 !~ /fail|noaddr|handshake/ { taken[$2]; next }
    $3 !~ /handshake/ && NF <= 8 { address[$1] = $2; flags[$1] = $3 }
    END {
      for (id in address) {
        host = address[id]
        sub(/:[0-9]*$/, "", host)
        is_nowhere = flags[id] !~ /fail\?/ && index(hosts, " " host " ") == 0
        if (flags[id] ~ /noaddr/ || address[id] in taken || is_nowhere) print id
      }
    }' | while read -r id; do ask "$SELF" CLUSTER FORGET "$id" >/dev/null; done
}

while true; do
  known=$(members_of "$SELF")
  if [ "$known" -eq 1 ]; then
    leave_solitude
  elif [ "$known" -gt 1 ]; then
    take_a_place
    forget_the_gone
  fi
  sleep "${PERIOD_SECONDS:-2}"
done
