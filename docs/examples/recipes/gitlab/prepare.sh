#!/bin/sh
# Claims a machine for the job.
. "$(dirname "$0")/common.sh"
attempts=0
until message=$(claim 2>&1); do
  attempts=$((attempts + 1))
  case "$message" in
    # The same request gets the same response until a person changes the role, the pool or a setting above.
    *"(Forbidden)"* | *"(Unauthorized)"* | *"(NotFound)"* | *"(BadRequest)"* | *"(ClaimHeld)"*)
      echo "claiming a machine of pool $POOL in namespace $POOL_NAMESPACE is refused: $message" >&2
      exit "$unavailable"
      ;;
  esac
  # Each attempt waits 25 seconds for a free machine.
  if [ "$attempts" -ge "${CLAIM_ATTEMPTS:-20}" ]; then
    echo "pool $POOL in namespace $POOL_NAMESPACE gave no machine in $attempts attempts: $message" >&2
    exit "$unavailable"
  fi
  sleep "${RETRY_SECONDS:-5}"
done
host=$(address)
if [ -z "$host" ]; then
  echo "machine $(field name) of pool $POOL has no address: check its network and the agent in its guest" >&2
  exit "$unavailable"
fi
echo "job $CUSTOM_ENV_CI_JOB_ID runs on $(field name) ($host)"
