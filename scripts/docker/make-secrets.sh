#!/bin/sh
# The secret of the cluster and the tokens of both planes, once, in ./secrets beside this file.
set -eu
cd "$(dirname "$0")"
mkdir -p secrets
for name in cluster-secret client-token admin-token; do
  [ -e "secrets/$name" ] || openssl rand -hex 32 > "secrets/$name"
  # The node in the container is another user than you.
  chmod 644 "secrets/$name"
done
