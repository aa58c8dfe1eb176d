#!/bin/sh
# Gives each user one desktop of a pool: broker.sh connect USER | keep USER | logout USER
#
#   connect  prints the address of the desktop of the user, and claims one if the user has none
#   keep     renews the claim. Run it periodically while the session is open
#   logout   gives the desktop back. The next user gets a fresh one; with AFTER_LOGOUT=Keep, the same one
#
# Set: POOL_NAMESPACE and POOL. Optional: POOL_GROUP and CLAIM_SECONDS, after which a lost session ends.
set -eu
if [ $# -ne 2 ]; then
  echo "usage: broker.sh connect|keep|logout USER" >&2
  exit 64
fi
pool="/apis/${POOL_GROUP:-subresources.vmpool.dev}/v1alpha1/namespaces/$POOL_NAMESPACE/virtualmachinepools/$POOL"
action=$1
id="desktop-$2"

claim() {
  printf '{"id":"%s","durationSeconds":%s,"reason":"desktop","waitSeconds":25,"renew":%s}' \
    "$id" "${CLAIM_SECONDS:-14400}" "$1" |
    kubectl create --raw "$pool/claim" -f -
}

case "$action" in
  connect)
    machine=$(claim false)
    host=$(printf '%s' "$machine" | sed -n 's/.*"addresses":\["\([^"]*\)".*/\1/p')
    if [ -z "$host" ]; then
      name=$(printf '%s' "$machine" | sed -n 's/.*"name":"\([^"]*\)".*/\1/p')
      echo "desktop $name of user $2 has no address: check its network and the agent in its guest." \
        "The user keeps it. Connect again, or give it back with: broker.sh logout $2" >&2
      exit 75
    fi
    printf '%s\n' "$host"
    ;;
  keep) claim true >/dev/null ;;
  logout)
    if ! machine=$(claim true 2>&1); then
      case "$machine" in
        # A user without a desktop has nothing to give back.
        *"(ClaimLost)"*) exit 0 ;;
      esac
      echo "the desktop of user $2 was not given back: $machine" >&2
      exit 75
    fi
    uid=$(printf '%s' "$machine" | sed -n 's/.*"uid":"\([^"]*\)".*/\1/p')
    printf '{"id":"%s","machineUID":"%s","then":"%s"}' "$id" "$uid" "${AFTER_LOGOUT:-Replace}" |
      kubectl create --raw "$pool/release" -f - >/dev/null
    ;;
  *)
    echo "usage: broker.sh connect|keep|logout USER" >&2
    exit 64
    ;;
esac
