#!/bin/sh
# The secret of the cluster, the tokens and the password of Grafana, once, in ./secrets beside this file.
set -eu
cd "$(dirname "$0")"
mkdir -p secrets
# Of this host nobody else looks in; containers get each file by itself.
chmod 700 secrets
for name in cluster-secret client-token admin-token scrape-token grafana-password; do
  if [ ! -s "secrets/$name" ]; then
    # By another name first: what fails must not leave an empty secret behind.
    openssl rand -hex 32 > secrets/.new
    mv secrets/.new "secrets/$name"
  fi
  # Who reads it in the container is another user than you.
  chmod 644 "secrets/$name"
done
