#!/bin/sh
# Random secrets for docker-compose.yaml, as a .env file on stdout: sh docker/secrets.sh > .env
set -eu

random() { # random BYTES: so many bytes in hexadecimal
    head -c "$1" /dev/urandom | od -An -tx1 | tr -d ' \n'
}

echo "LAKEINDEX_POSTGRES_PASSWORD=$(random 16)"
echo "LAKEINDEX_S3_KEY=lake"
echo "LAKEINDEX_S3_SECRET=$(random 16)"
echo "LAKEINDEX_JWT_SECRET=$(random 32)"
echo "LAKEINDEX_FERNET_KEY=$(head -c 32 /dev/urandom | base64 | tr '+/' '-_')"
