#!/bin/sh
# Certificates of the links between the nodes for links.yaml, in ./secrets beside this file. Made again they are renewed,
# and the authority stays.
set -eu
cd "$(dirname "$0")/secrets"
# No other user of this host looks in: the keys of nodes are readable for all.
chmod 700 .
new='-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes'
[ -s links-ca.pem ] || openssl req -x509 $new -days 3650 -subj '/CN=millrace nodes' -keyout links-ca.key -out links-ca.pem
for id in 1 2 3; do
  folder=links-$((id - 1))
  mkdir -p "$folder"
  # By other names first: a certificate must not lie beside the key of another one.
  openssl req -x509 -CA links-ca.pem -CAkey links-ca.key $new -days 365 -subj "/CN=node $id" \
    -addext 'basicConstraints=critical,CA:FALSE' -addext "subjectAltName=URI:millrace://millrace/node/$id" \
    -keyout "$folder/.new.key" -out "$folder/.new.pem"
  mv "$folder/.new.key" "$folder/node.key"
  mv "$folder/.new.pem" "$folder/node.pem"
  cp links-ca.pem "$folder/ca.pem"
  # Who reads them in the container is another user than you.
  chmod 755 "$folder"
  chmod 644 "$folder"/*
done
