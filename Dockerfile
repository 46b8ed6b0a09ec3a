# The program `keyfold`, in an image without compilers and without root.
#
#   docker build -t keyfold:0.1.0 .
#   docker run --rm keyfold:0.1.0 version
#
# State and checkpoints lie under /var/lib/keyfold: give it a volume. Metrics and health are at port 9464 of all interfaces of the
# container; publish it on the host's loopback interface.
FROM rust:1.95.0-slim-bookworm AS build
# Of scripts/packages.txt what compiling needs.
RUN apt-get update \
    && apt-get install -y --no-install-recommends g++ make ccache mold libclang-dev pkg-config zlib1g-dev libssl-dev \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /build
COPY . .
RUN cargo build --release --locked -p keyfold-service --bin keyfold \
    && strip -o /keyfold target/release/keyfold

FROM debian:12.12-slim
RUN apt-get update \
    && apt-get install -y --no-install-recommends ca-certificates libssl3 libstdc++6 zlib1g \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --system --uid 10001 --no-create-home --home-dir /var/lib/keyfold keyfold \
    && install -d -o keyfold -g keyfold -m 0750 /var/lib/keyfold
COPY --from=build /keyfold /usr/local/bin/keyfold
USER 10001
WORKDIR /var/lib/keyfold
VOLUME /var/lib/keyfold
ENV KEYFOLD_STATE_DIR=/var/lib/keyfold/state \
    KEYFOLD_CHECKPOINT_DIR=/var/lib/keyfold/checkpoints \
    KEYFOLD_HTTP_LISTEN=0.0.0.0:9464
EXPOSE 9464
# Ready, not only alive: what waits for this container waits until the job runs, or waits as a spare. bash does without curl.
HEALTHCHECK --interval=5s --timeout=5s --start-period=60s --retries=6 \
    CMD ["bash", "-c", "exec 3<>/dev/tcp/127.0.0.1/9464 && printf 'GET /health/ready HTTP/1.0\\r\\nHost: localhost\\r\\n\\r\\n' >&3 && read -r _ code _ <&3 && [[ $code == 200 ]]"]
ENTRYPOINT ["keyfold"]
CMD ["--help"]
