# versitygw, the S3-compatible store that the tests use too (scripts/s3_server.py). For testing on one's own machine.
FROM golang:1.26-bookworm AS build

RUN CGO_ENABLED=0 go install github.com/versity/versitygw/cmd/versitygw@v1.8.0

FROM debian:bookworm-slim

RUN apt-get update \
 && apt-get install --yes --no-install-recommends curl \
 && rm -rf /var/lib/apt/lists/*
COPY --from=build /go/bin/versitygw /usr/local/bin/

RUN useradd --create-home store && mkdir /data && chown store /data
USER store
VOLUME /data
EXPOSE 9000
CMD ["versitygw", "--port", ":9000", "--health", "/health", "posix", "/data"]
