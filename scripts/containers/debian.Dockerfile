# debian:bookworm-slim, with the certificates that this machine trusts
FROM localhost/lakeindex-debootstrap:bookworm-slim
RUN apt-get update \
 && apt-get install --yes --no-install-recommends ca-certificates \
 && rm -rf /var/lib/apt/lists/*
COPY certificates /usr/local/share/ca-certificates/host
RUN update-ca-certificates
ENV PIP_CERT=/etc/ssl/certs/ca-certificates.crt SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt
