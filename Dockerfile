# The C library in both stages is Debian's glibc: the GPU collector loads the
# driver's library through it. Base images are pinned by the digest of their index of
# all platforms; docker buildx imagetools inspect IMAGE:TAG shows the one of a newer tag.
FROM golang:1.26.8-bookworm@sha256:a688600ca24f8a4d3ca77f95b0dd40704a9fc787c826660eb7ba0b641b8b175d AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION=unknown
ARG REVISION=unknown
ARG BRANCH=unknown
RUN make build TAGS=kubernetes_sd,consul_sd,clouds,mcp,pod_resources VERSION="$VERSION" REVISION="$REVISION" BRANCH="$BRANCH"
RUN mkdir /state

FROM debian:12-slim@sha256:7c7b2c966bc9ee8cedfeef67e0e279108992c77681fa595db4a9d65c06ccc587
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /src/LICENSE /usr/share/doc/inference_exporter/LICENSE
COPY --from=build /src/inference_exporter /usr/local/bin/inference_exporter
ARG VERSION=unknown
ARG REVISION=unknown
LABEL org.opencontainers.image.title=inference_exporter \
      org.opencontainers.image.description="Prometheus exporter and synthetic prober for LLM inference endpoints" \
      org.opencontainers.image.version="$VERSION" \
      org.opencontainers.image.revision="$REVISION" \
      org.opencontainers.image.licenses=Apache-2.0 \
      org.opencontainers.image.source=https://github.com/inference-exporter/inference_exporter \
      org.opencontainers.image.url=https://github.com/inference-exporter/inference_exporter \
      org.opencontainers.image.documentation=https://github.com/inference-exporter/inference_exporter/tree/main/docs
# What survives a restart; a volume here outlives the container.
COPY --from=build --chown=65532:65532 /state /var/lib/inference_exporter
ENV STATE_DIRECTORY=/var/lib/inference_exporter
USER 65532:65532
EXPOSE 10115
ENTRYPOINT ["/usr/local/bin/inference_exporter"]
