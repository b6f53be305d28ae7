# The image of retry-policy: a Python without pip, the hash-locked packages, the project. Nothing unpinned is downloaded.
# If you have your own package index or CA, pass pip's configuration as a secret, which is in no layer:
#   docker build --secret id=pip.conf,src=$HOME/.config/pip/pip.conf .
# A tag, so that an image that is built from a checkout has the latest fixes of the base. A release is built from a digest,
# which `python3 -m hack.release image` looks up and records: BASE_IMAGE=python:3.11-slim@sha256:…
ARG BASE_IMAGE=python:3.11-slim

FROM ${BASE_IMAGE} AS build
# Only compileall writes bytecode: the files that Python and pip would write contain the time of the build.
ENV PYTHONDONTWRITEBYTECODE=1 \
    PIP_CONFIG_FILE=/run/secrets/pip.conf PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_QUIET=1
WORKDIR /src
# pip and the build backend have an environment of their own: the one that is shipped has neither.
RUN python3 -m venv /build && python3 -m venv --without-pip /opt/retry-policy
COPY requirements requirements
RUN --mount=type=secret,id=pip.conf --mount=type=secret,id=ca.crt \
    /build/bin/pip --python /opt/retry-policy install --no-compile --only-binary=:all: --require-hashes \
        --requirement requirements/runtime.txt
RUN --mount=type=secret,id=pip.conf --mount=type=secret,id=ca.crt \
    /build/bin/pip install --only-binary=:all: --require-hashes --requirement requirements/build.txt
COPY . .
# The bytecode is never checked against the sources, so it is the same in every build. The models of the Kubernetes client
# and the lexers of Pygments, which comes with rich, get none: nothing imports them, and their bytecode has 55 MB.
RUN /build/bin/hatchling build --target wheel --directory /wheel \
    && /build/bin/pip --python /opt/retry-policy install --no-compile --no-deps --no-index /wheel/*.whl \
    && python3 -m compileall -q --invalidation-mode unchecked-hash \
        -x '/(kubernetes/(aio/)?client/(api|models)|pygments/lexers)/[^_]' /opt/retry-policy

FROM ${BASE_IMAGE}
ENV PATH=/opt/retry-policy/bin:${PATH} PYTHONDONTWRITEBYTECODE=1
# Remove the base's tools that install packages. Compile its standard library, which comes without bytecode: on a read-only
# file system, Python would compile it at each start, which takes a quarter of a second.
RUN find /usr -depth \( -name ensurepip -o -name pip -o -name 'pip[-0-9]*' -o -name 'setuptools*' -o -name 'wheel*' \
        -o -name pkg_resources -o -name _distutils_hack -o -name distutils-precedence.pth \) -exec rm -rf {} + \
    && python3 -m compileall -q --invalidation-mode unchecked-hash \
        "$(python3 -c 'import sysconfig; print(sysconfig.get_path("stdlib"))')"
COPY --from=build /opt/retry-policy /opt/retry-policy
# A number, so that the kubelet can see that it is not root.
USER 65532:65532
ARG BASE_IMAGE
LABEL org.opencontainers.image.title="retry-policy-webhook" \
      org.opencontainers.image.description="One retry policy for every batch workload in a Kubernetes cluster" \
      org.opencontainers.image.version="0.2.0" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.base.name="${BASE_IMAGE}"
ENTRYPOINT ["retry-policy"]
CMD ["serve"]
