# syntax=docker/dockerfile:1
#
# The four images: `docker build --target vmpool-controller .`, likewise vmpool-webhook, vmpool-apiserver and kubectl-vmpool, with which
# `helm test` checks the installation.
#
# CI does not build this file, because it has no Docker. The end-to-end tests put the same programs into images of their own.
#
# Linked statically, as is usual with musl, so that the image needs nothing else: no shell, no libraries, no certificates of public authorities
# (the programs talk to the API server only, whose authority their ServiceAccount brings) and no time zones (they use UTC).

# The version is that of rust-toolchain.toml.
FROM rust:1.95.0-alpine AS build
# A C compiler and its headers: the cryptography library has parts in C and assembler.
RUN apk add --no-cache gcc musl-dev
WORKDIR /src
COPY . .
# The image brings the toolchain; without this, rustup would fetch the one that the file names, with components for development.
ENV RUSTUP_TOOLCHAIN=1.95.0
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/src/target \
    cargo build --locked --release --bins \
        --package vmpool-controller --package vmpool-webhook --package vmpool-apiserver --package vmpool-cli \
    && mkdir /out \
    && cp target/release/vmpool-controller target/release/vmpool-webhook target/release/vmpool-apiserver \
        target/release/kubectl-vmpool /out/

# The user has a number, so that Kubernetes can see that it is not root.
FROM scratch AS vmpool-controller
COPY --from=build /out/vmpool-controller /vmpool-controller
USER 65532:65532
ENTRYPOINT ["/vmpool-controller"]

FROM scratch AS vmpool-webhook
COPY --from=build /out/vmpool-webhook /vmpool-webhook
USER 65532:65532
ENTRYPOINT ["/vmpool-webhook"]

FROM scratch AS vmpool-apiserver
COPY --from=build /out/vmpool-apiserver /vmpool-apiserver
USER 65532:65532
ENTRYPOINT ["/vmpool-apiserver"]

FROM scratch AS kubectl-vmpool
COPY --from=build /out/kubectl-vmpool /kubectl-vmpool
USER 65532:65532
ENTRYPOINT ["/kubectl-vmpool"]
