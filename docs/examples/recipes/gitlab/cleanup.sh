#!/bin/sh
# Gives the machine back. The controller deletes it and creates a fresh one for the next job.
. "$(dirname "$0")/common.sh"
# Without a response, prepare may still have claimed a machine. A renewal finds it.
[ -s "$state" ] || claim true || { rm -f "$state"; exit 0; }
request=$(printf '{"id":"%s","machineUID":"%s","then":"%s"}' "$id" "$(field uid)" "${AFTER_JOB:-Replace}")
attempts=0
until message=$(printf '%s' "$request" | kubectl create --raw "$pool/release" -f - 2>&1); do
  case "$message" in
    # Released before, or ended.
    *ClaimNotFound* | *"no such claim"*) break ;;
  esac
  attempts=$((attempts + 1))
  if [ "$attempts" -ge 5 ]; then
    echo "releasing the machine failed; its claim ends by itself: $message" >&2
    break
  fi
  sleep "${RETRY_SECONDS:-5}"
done
rm -f "$state"
