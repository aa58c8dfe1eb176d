#!/bin/sh
# Claims a machine for the job, and waits until it accepts connections.
. "$(dirname "$0")/common.sh"
attempts=0
until claim; do
  attempts=$((attempts + 1))
  # Each attempt waits 25 seconds for a free machine.
  if [ "$attempts" -ge "${CLAIM_ATTEMPTS:-20}" ]; then
    echo "no machine of pool $POOL was free in time" >&2
    exit "$unavailable"
  fi
  sleep "${RETRY_SECONDS:-5}"
done
host=$(address)
if [ -z "$host" ]; then
  echo "machine $(field name) has no address" >&2
  exit "$unavailable"
fi
echo "job $CUSTOM_ENV_CI_JOB_ID runs on $(field name) ($host)"
