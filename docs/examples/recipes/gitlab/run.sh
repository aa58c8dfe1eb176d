#!/bin/sh
# Runs one script of the job on the claimed machine. GitLab Runner passes the script and the name of its stage.
. "$(dirname "$0")/common.sh"
# Another client can take the machine when the claim has ended.
if ! claim true; then
  echo "the claim of the machine has ended" >&2
  exit "$unavailable"
fi
exec ssh -o StrictHostKeyChecking=accept-new "${SSH_USER:-runner}@$(address)" /bin/sh -s <"$1"
