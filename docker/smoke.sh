#!/bin/sh
# The compose file for real: build, up, the demo against s3://lake on the cluster, down with its volumes.
#
# Needs a container engine with compose v2. A project name of its own keeps it apart from one that is up; the ports are
# the same, so that one must be down. Exit 0 only if every count of the demo held.
set -eu
cd "$(dirname "$0")/.."

secrets=$(mktemp)
sh docker/secrets.sh > "$secrets"
compose="docker compose --project-name lakeindex-smoke --env-file $secrets"

finish() {
    rc=$?
    if [ "$rc" != 0 ]; then
        $compose ps --all
        $compose logs --tail 100
    fi
    $compose --profile demo down --volumes --timeout 30
    rm -f "$secrets"
    exit "$rc"
}
trap finish EXIT
trap 'exit 130' INT TERM

$compose --profile demo build demo
$compose up --build --detach --wait --wait-timeout 600
LAKEINDEX_FIRST_MONTH=${LAKEINDEX_FIRST_MONTH:-2013-11} $compose run --rm --no-deps demo
