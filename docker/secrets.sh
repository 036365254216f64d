#!/bin/sh
# Random secrets for docker-compose.yaml, as a .env file on stdout: sh docker/secrets.sh > .env
#
# All of them or none: a tool that is missing ends it before a line is printed.
set -eu

for tool in base64 cat head od tr; do
    command -v "$tool" > /dev/null || {
        echo "secrets.sh: there is no $tool on PATH, so no secret was made" >&2
        exit 1
    }
done

random() { # random BYTES: so many bytes in hexadecimal
    text=$(head -c "$1" /dev/urandom | od -An -tx1 | tr -d ' \n')
    if [ ${#text} != $(($1 * 2)) ]; then
        echo "secrets.sh: $1 random bytes became ${#text} hexadecimal digits" >&2
        exit 1
    fi
    printf %s "$text"
}

postgres=$(random 16)
store=$(random 16)
jwt=$(random 32)
fernet=$(head -c 32 /dev/urandom | base64 | tr '+/' '-_')
if [ ${#fernet} != 44 ]; then
    echo "secrets.sh: 32 random bytes became ${#fernet} characters of base64" >&2
    exit 1
fi

cat << END
LAKEINDEX_POSTGRES_PASSWORD=$postgres
LAKEINDEX_S3_KEY=lake
LAKEINDEX_S3_SECRET=$store
LAKEINDEX_JWT_SECRET=$jwt
LAKEINDEX_FERNET_KEY=$fernet
END
