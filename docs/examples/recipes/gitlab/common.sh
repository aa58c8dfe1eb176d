# Shared by prepare.sh, run.sh and cleanup.sh of GitLab Runner's custom executor.
#
# Set in the environment of the runner: POOL_NAMESPACE and POOL. Optional: POOL_GROUP for KubeVirt pools
# (kubevirt.subresources.vmpool.dev), CLAIM_SECONDS, and SSH_USER.
set -eu
pool="/apis/${POOL_GROUP:-subresources.vmpool.dev}/v1alpha1/namespaces/$POOL_NAMESPACE/virtualmachinepools/$POOL"
# The job has the same id in all three scripts, so each of them finds the same claim.
id="gitlab-$CUSTOM_ENV_CI_JOB_ID"
state="${TMPDIR:-/tmp}/vmpool-$id"
# GitLab Runner repeats a job that exits with this code on another runner.
unavailable="${SYSTEM_FAILURE_EXIT_CODE:-2}"

# claim [renew]: claims a machine, or only renews the claim, and stores the response.
claim() {
  printf '{"id":"%s","durationSeconds":%s,"reason":"job %s","waitSeconds":25,"renew":%s}' \
    "$id" "${CLAIM_SECONDS:-3600}" "$CUSTOM_ENV_CI_JOB_ID" "${1:-false}" |
    kubectl create --raw "$pool/claim" -f - >"$state"
}

# field NAME: a text in the stored response.
field() {
  sed -n "s/.*\"$1\":\"\([^\"]*\)\".*/\1/p" "$state" | head -n 1
}

# The first address of the claimed machine.
address() {
  sed -n 's/.*"addresses":\["\([^"]*\)".*/\1/p' "$state"
}
