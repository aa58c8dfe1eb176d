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
until machine=$(claim false); do
  attempts=$((attempts + 1))
  if [ "$attempts" -ge "${CLAIM_ATTEMPTS:-20}" ]; then
    echo "no machine of pool $POOL was free in time" >&2
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

# An ephemeral runner takes one job and exits.
configuration=$(sh -c "$JIT_COMMAND")
ssh -o StrictHostKeyChecking=accept-new "${SSH_USER:-runner}@$host" "./run.sh --jitconfig $configuration"
