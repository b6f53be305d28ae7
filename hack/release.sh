#!/usr/bin/env bash
# Builds and pushes IMAGE:VERSION, and writes the files of a release into FOLDER:
#   images.md              the digests of the image and of its base image
#   manifests-VERSION.tgz  manifests/, whose Deployment has the image by digest
#   sbom.spdx.json         the software bill of materials of the image
#
# Needs docker with buildx and a builder that supports attestations (docker buildx create --driver docker-container
# --use), and a login to the registry. The project's own tests have no registry: they replace docker by a fake.
set -euo pipefail
cd "$(dirname "$0")/.."

image=${1:?IMAGE is missing: registry.example/retry-policy-webhook}
folder=${2:?FOLDER is missing}
version=$(sed -nE 's/^__version__ = "(.*)"$/\1/p' webhook/__init__.py)
base=$(sed -nE 's/^ARG BASE_IMAGE=(.+)$/\1/p' Dockerfile)
mkdir -p "$folder"

field() { python3 -c 'import json, sys; print(json.load(sys.stdin)[sys.argv[1]])' "$1"; }
is_digest() { [[ $1 =~ ^sha256:[0-9a-f]{64}$ ]] || { echo "no digest of $2: $1" >&2; exit 1; }; }

# The tag is resolved once: later it may name another image, but a digest never does.
base_digest=$(docker buildx imagetools inspect "$base" --format '{{json .Manifest}}' | field digest)
is_digest "$base_digest" "$base"
docker buildx build --build-arg "BASE_IMAGE=$base@$base_digest" --tag "$image:$version" --push \
  --sbom=true --provenance=mode=max --metadata-file "$folder/metadata.json" .
digest=$(field containerimage.digest <"$folder/metadata.json")
is_digest "$digest" "$image:$version"
rm "$folder/metadata.json"

docker buildx imagetools inspect "$image@$digest" --format '{{json .SBOM.SPDX}}' >"$folder/sbom.spdx.json"

copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
cp -r manifests "$copy"
sed -i "s|^    newTag: .*|    newName: $image\n    digest: $digest|" "$copy/manifests/base/kustomization.yaml"
grep -qF "    digest: $digest" "$copy/manifests/base/kustomization.yaml"
tar -C "$copy" -czf "$folder/manifests-$version.tgz" manifests

cat >"$folder/images.md" <<END
| | |
|---|---|
| Image | \`$image@$digest\` |
| Built from | \`$base@$base_digest\` |
END
