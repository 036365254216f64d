#!/bin/sh
# Set a database up at the first start, then serve it: POSTGRES_USER, POSTGRES_PASSWORD, POSTGRES_DB of the image postgres.
set -eu

if [ "$(id -u)" = 0 ]; then
    chown -R postgres:postgres "$PGDATA"
    exec setpriv --reuid postgres --regid postgres --init-groups -- env HOME=/var/lib/postgresql sh "$0"
fi
if [ ! -e "$PGDATA/PG_VERSION" ]; then
    umask 077
    printf '%s' "$POSTGRES_PASSWORD" > "$HOME/password"
    initdb --pgdata "$PGDATA" --username "$POSTGRES_USER" --pwfile "$HOME/password" --auth-local trust --auth-host scram-sha-256
    rm "$HOME/password"
    echo 'host all all all scram-sha-256' >> "$PGDATA/pg_hba.conf"
    # on its socket alone, as the real image's first server: a health check over the socket is led astray here, too
    pg_ctl --pgdata "$PGDATA" --wait -o "-c listen_addresses=" start
    [ "$POSTGRES_DB" = postgres ] || createdb --username "$POSTGRES_USER" "$POSTGRES_DB"
    pg_ctl --pgdata "$PGDATA" --wait --mode fast stop
fi
exec postgres -D "$PGDATA" -c 'listen_addresses=*'
