#!/bin/sh
# Lets a machine finish its work before it leaves its pool: agent.sh run COMMAND... | begin | end
#
#   run    sets the hook, runs the command, and releases the hook
#   begin  sets the hook. With code 75, the machine drains or is being deleted: start no work on it
#   end    releases the hook. If it prints "draining", start no further work on the machine
#
# Set: POOL_NAMESPACE and MACHINE. Optional: HOOK, the name of the hook, and MACHINES, the type of the machine.
set -eu
machines=${MACHINES:-virtualmachines.virtualization.deckhouse.io}
hook="drain.vmpool.dev/${HOOK:-job}"

read_field() {
  kubectl get "$machines" "$MACHINE" -n "$POOL_NAMESPACE" -o "jsonpath={.metadata.$1}"
}

annotate() {
  kubectl annotate "$machines" "$MACHINE" -n "$POOL_NAMESPACE" --overwrite "$1" >/dev/null
}

# The id of the drain; nothing if the machine does not drain.
read_drain() {
  mark=$(read_field 'annotations.vmpool\.dev/draining') || return
  printf '%s' "$mark" | sed -n 's/.*"id":"\([^"]*\)".*/\1/p'
}

begin() {
  annotate "$hook="
  # The controller deletes only the version of the machine that it has read, so it sees the hook from now on.
  deleted=$(read_field deletionTimestamp)
  drain=$(read_drain)
  if [ -n "$deleted$drain" ]; then
    [ -z "$drain" ] || annotate "$hook=$drain"
    echo "machine $MACHINE leaves or restarts: it starts no work" >&2
    exit 75
  fi
}

end() {
  drain=$(read_drain)
  if [ -n "$drain" ]; then
    annotate "$hook=$drain"
    echo draining
  else
    annotate "$hook-"
  fi
}

action=${1:-}
[ $# -eq 0 ] || shift
case "$action" in
  begin) begin ;;
  end) end ;;
  run)
    begin
    code=0
    "$@" || code=$?
    end
    exit "$code"
    ;;
  *)
    echo "usage: agent.sh run COMMAND... | begin | end" >&2
    exit 64
    ;;
esac
