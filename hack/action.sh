#!/usr/bin/env bash
# The step of action.yml that checks manifests and tests a policy. Its inputs are environment variables, so that nothing
# of them is part of a script.
set -euo pipefail

# Isolated: nothing is imported from the folder that is checked out, whose author may be anybody.
retry_policy() {
  "$RUNNER_TEMP/retry-policy/bin/python" -I -c '
import os, sys
sys.path.append(os.environ["GITHUB_ACTION_PATH"])
from webhook.cli.main import main
sys.exit(main(prog_name="retry-policy"))' "$@"
}

arguments=(-o github --fail-on "$FAIL_ON")
while IFS= read -r file; do
  [[ -z $file ]] || arguments+=(-f "$file")
done <<<"$FILES"
[[ -z $POLICY ]] || arguments+=(--policy "$POLICY")
[[ -z $PROFILE ]] || arguments+=(--profile "$PROFILE")

status=0
retry_policy check "${arguments[@]}" || status=$?

tests=()
while IFS= read -r file; do
  [[ -z $file ]] || tests+=(-f "$file")
done <<<"$CASES"
if ((${#tests[@]})); then
  retry_policy test -o github "${tests[@]}" || { code=$?; ((status >= code)) || status=$code; }
fi
exit "$status"
