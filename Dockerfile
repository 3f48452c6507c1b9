# The C library in both stages is Debian's glibc: the GPU collector loads the
# driver's library through it.
FROM golang:1.26-bookworm AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION=unknown
ARG REVISION=unknown
ARG BRANCH=unknown
RUN make build TAGS=kubernetes_sd,consul_sd,clouds,mcp VERSION="$VERSION" REVISION="$REVISION" BRANCH="$BRANCH"
RUN mkdir /state

FROM debian:12-slim
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /src/LICENSE /usr/share/doc/inference_exporter/LICENSE
COPY --from=build /src/inference_exporter /usr/local/bin/inference_exporter
# What survives a restart; a volume here outlives the container.
COPY --from=build --chown=65532:65532 /state /var/lib/inference_exporter
ENV STATE_DIRECTORY=/var/lib/inference_exporter
USER 65532:65532
EXPOSE 10115
ENTRYPOINT ["/usr/local/bin/inference_exporter"]
