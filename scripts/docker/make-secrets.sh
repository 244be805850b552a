#!/bin/sh
# The secret of the cluster, the tokens and the password of Grafana, once, in ./secrets beside this file. To renew some, remove
# them and run this again; containers see a new file when they are made again: docker compose up --detach --force-recreate
set -eu
cd "$(dirname "$0")"
mkdir -p secrets
# No other user of this host looks in; containers get each file by itself.
chmod 700 secrets
for name in cluster-secret client-token admin-token exporter-token scrape-token grafana-password admin-tokens.toml; do
  if [ ! -s "secrets/$name" ]; then
    # By another name first: what fails must not leave an empty secret behind.
    case $name in
      # What nodes know of the exporter's token: remove both for another one.
      *.toml) printf '[[tokens]]\nid = "exporter"\nrole = "observe"\ntoken = "%s"\n' "$(cat secrets/exporter-token)" ;;
      *) openssl rand -hex 32 ;;
    esac > secrets/.new
    mv secrets/.new "secrets/$name"
  fi
  # Who reads it in the container is another user than you.
  chmod 644 "secrets/$name"
done
