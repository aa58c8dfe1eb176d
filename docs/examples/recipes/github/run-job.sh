#!/bin/sh
# Runs one GitHub Actions job on a machine of a pool: claims a machine, starts an ephemeral runner on it, and gives the
# machine back when the runner ends. Start it once for each queued job, for example from the webhook workflow_job.
#
# Set: POOL_NAMESPACE, POOL, JOB (the id of the queued job), and JIT_COMMAND, a command that prints the just-in-time
# configuration of a new runner (POST /repos/OWNER/REPO/actions/runners/generate-jitconfig). Optional: POOL_GROUP,
# CLAIM_SECONDS, SSH_USER, AFTER_JOB.
set -eu
pool="/apis/${POOL_GROUP:-subresources.vmpool.dev}/v1alpha1/namespaces/$POOL_NAMESPACE/virtualmachinepools/$POOL"
id="github-$JOB"
seconds="${CLAIM_SECONDS:-3600}"

claim() {
  printf '{"id":"%s","durationSeconds":%s,"waitSeconds":25,"renew":%s}' "$id" "$seconds" "$1" |
    kubectl create --raw "$pool/claim" -f -
}

attempts=0
# After a failure, the variable contains the message of kubectl.
until machine=$(claim false 2>&1); do
  attempts=$((attempts + 1))
  case "$machine" in
    # The same request gets the same response until a person changes the role, the pool or a setting above.
    *"(Forbidden)"* | *"(Unauthorized)"* | *"(NotFound)"* | *"(BadRequest)"* | *"(ClaimHeld)"*)
      echo "claiming a machine of pool $POOL in namespace $POOL_NAMESPACE is refused: $machine" >&2
      exit 77
      ;;
  esac
  # Each attempt waits 25 seconds for a free machine.
  if [ "$attempts" -ge "${CLAIM_ATTEMPTS:-20}" ]; then
    echo "pool $POOL in namespace $POOL_NAMESPACE gave no machine in $attempts attempts: $machine" >&2
    exit 75
  fi
  sleep "${RETRY_SECONDS:-5}"
done
uid=$(printf '%s' "$machine" | sed -n 's/.*"uid":"\([^"]*\)".*/\1/p')
host=$(printf '%s' "$machine" | sed -n 's/.*"addresses":\["\([^"]*\)".*/\1/p')

# Renews the claim while the job runs.
(
  trap 'kill "${!:-}" 2>/dev/null; exit' TERM
  while :; do
    sleep $((seconds / 3)) &
    wait "$!"
    claim true || exit
  done
) >/dev/null 2>&1 &
renewal=$!

give_back() {
  kill "$renewal" 2>/dev/null || true
  printf '{"id":"%s","machineUID":"%s","then":"%s"}' "$id" "$uid" "${AFTER_JOB:-Replace}" |
    kubectl create --raw "$pool/release" -f - >/dev/null || echo "releasing failed; the claim ends by itself" >&2
}
trap give_back EXIT

if [ -z "$host" ]; then
  name=$(printf '%s' "$machine" | sed -n 's/.*"name":"\([^"]*\)".*/\1/p')
  echo "machine $name of pool $POOL has no address: check its network and the agent in its guest" >&2
  exit 75
fi

# An ephemeral runner takes one job and exits.
configuration=$(sh -c "$JIT_COMMAND")
ssh -o StrictHostKeyChecking=accept-new "${SSH_USER:-runner}@$host" "./run.sh --jitconfig $configuration"
