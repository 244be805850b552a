#!/bin/sh
# The secret of the cluster, the tokens and the password of Grafana, once, in ./secrets beside this file.
set -eu
cd "$(dirname "$0")"
mkdir -p secrets
for name in cluster-secret client-token admin-token scrape-token grafana-password; do
  [ -e "secrets/$name" ] || openssl rand -hex 32 > "secrets/$name"
  # Who reads it in the container is another user than you.
  chmod 644 "secrets/$name"
done
