#!/bin/sh
# The certificates of cert-manager.yaml, by openssl: an authority, the server's and the client's, as Secrets.
# Run again before they end (90 days), then restart cluster-autoscaler, which reads its own only once.
set -eu
umask 077
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

key="-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes"
# shellcheck disable=SC2086
openssl req -x509 $key -keyout ca.key -out ca.crt -days 3650 -subj /CN=externalgrpc-ca

sign() { # NAME USAGE SUBJECT-ALTERNATIVE-NAMES
  printf 'subjectAltName=%s\nextendedKeyUsage=%s\n' "$3" "$2" > "$1.ext"
  # shellcheck disable=SC2086
  openssl req $key -keyout "$1.key" -out "$1.csr" -subj "/CN=$1"
  openssl x509 -req -in "$1.csr" -CA ca.crt -CAkey ca.key -CAcreateserial -days 90 -extfile "$1.ext" -out "$1.crt"
}
sign server serverAuth "DNS:verda-gpu-autoscaler.gpu-autoscaler,DNS:verda-gpu-autoscaler.gpu-autoscaler.svc"
sign client clientAuth "DNS:cluster-autoscaler-grpc-client"

secret() { # NAMESPACE NAME SIDE
  kubectl -n "$1" create secret generic "$2" --dry-run=client -o yaml \
    --from-file=tls.crt="$3.crt" --from-file=tls.key="$3.key" --from-file=ca.crt=ca.crt | kubectl apply -f -
}
secret gpu-autoscaler externalgrpc-server server
secret kube-system externalgrpc-client client
