#!/usr/bin/env bash
# A kind cluster with the webhook in it: runs the cluster tests there, then builds, loads and installs the image.
#
# Needs Linux with docker, kind and kubectl, and a registry with kind's node image. The project's own tests have none of
# these, so the complete script has never been run, only checked by shellcheck.
set -euo pipefail
cd "$(dirname "$0")/.."

for program in docker kind kubectl; do
  command -v "$program" >/dev/null || { echo "$program is needed for this" >&2; exit 1; }
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cache=${XDG_CACHE_HOME:-$HOME/.cache}/retry-policy-webhook
mkdir -p "$cache"
export KUBECONFIG=$cache/kind.kubeconfig # does not change your own kubeconfig
kind create cluster --name retry-policy --wait 2m

# The tests' server runs on this machine; the cluster reaches it by the address of its network's gateway.
RETRY_POLICY_WEBHOOK_HOST=$(docker network inspect kind --format '{{range .IPAM.Config}}{{println .Gateway}}{{end}}' | grep -F .)
export RETRY_POLICY_WEBHOOK_HOST
make test-cluster KUBECONFIG="$KUBECONFIG"

# The tests have deleted the namespace, which takes a moment.
kubectl wait --for=delete namespace/retry-policy-system --timeout=2m
image=$(kubectl kustomize manifests/base | sed -n 's/^ *image: //p')
.venv/bin/python -m tests.image.pip_configuration "$work" >"$work/options"
mapfile -t options <"$work/options"
docker build "${options[@]}" --tag "$image" .
kind load docker-image --name retry-policy "$image"
kubectl apply --kustomize manifests/base
kubectl --namespace=retry-policy-system rollout status deployment/retry-policy-webhook --timeout=2m

kubectl create namespace retry-policy-try
kubectl label namespace retry-policy-try retry-policy.dev/profile=default
policy=$(kubectl create --namespace=retry-policy-try --filename=manifests/samples/job.yaml --output='jsonpath={.spec.podFailurePolicy}')
[[ -n $policy ]] || { echo "the sample Job was stored without a podFailurePolicy" >&2; exit 1; }

cat <<END
The webhook serves in the cluster; a Job in namespace retry-policy-try was given $policy

  export KUBECONFIG=$KUBECONFIG
  kind delete cluster --name retry-policy    # when you are done
END
