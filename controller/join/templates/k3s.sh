#!/usr/bin/env bash
{{ .MARK }}
{{ .JOIN }}
#
# Joins this machine to a k3s cluster as an agent. Runs as root at first boot and does nothing when run again.

readonly NODE_NAME={{ .NODE_NAME }}
readonly PROVIDER_ID={{ .PROVIDER_ID }}
readonly SERVER={{ .SERVER }}
readonly TOKEN={{ .TOKEN }}
readonly NODE_LABELS={{ .NODE_LABELS }}
readonly NODE_TAINTS={{ .NODE_TAINTS }}
readonly GPUS={{ .GPUS }}
readonly K3S_VERSION={{ .K3S_VERSION }}
readonly K3S_CHANNEL={{ .K3S_CHANNEL }}

# include common.sh

quoted() { # as a YAML scalar
  printf "'%s'" "${1//\'/\'\'}"
}

# The labels and taints are JSON lists, which are YAML as they stand.
write_config() {
  mkdir -p /etc/rancher/k3s
  (
    umask 077
    rm -f /etc/rancher/k3s/config.yaml
    {
      printf 'server: %s\n' "$(quoted "$SERVER")"
      printf 'token: %s\n' "$(quoted "$TOKEN")"
      printf 'node-name: %s\n' "$(quoted "$NODE_NAME")"
      printf 'node-label: %s\n' "$NODE_LABELS"
      printf 'node-taint: %s\n' "$NODE_TAINTS"
      printf 'kubelet-arg: [%s]\n' "$(quoted "provider-id=$PROVIDER_ID")"
      # The agent refuses to start with a default runtime that it does not find.
      if ((GPUS > 0)) && has_toolkit; then printf 'default-runtime: nvidia\n'; fi
    } >/etc/rancher/k3s/config.yaml
  )
  chmod 0600 /etc/rancher/k3s/config.yaml
}

# Without the word `agent` the installer makes a server, whatever the settings file says.
# Started by the installer, the unit would be waited for until the node has joined.
install_k3s() {
  fetch https://get.k3s.io "$WORK/install.sh" &&
    env -u K3S_URL -u K3S_TOKEN -u K3S_TOKEN_FILE INSTALL_K3S_SKIP_START=true \
      ${K3S_VERSION:+"INSTALL_K3S_VERSION=$K3S_VERSION"} ${K3S_CHANNEL:+"INSTALL_K3S_CHANNEL=$K3S_CHANNEL"} \
      sh "$WORK/install.sh" agent
}

main() {
  begin
  mask_upgrades
  retry "curl is installed" need_curl
  retry "$SERVER answers" server_answers
  wait_for_clock
  start_gpu_services
  wait_for_gpus
  need_toolkit
  hold_driver
  write_config
  retry "k3s is installed" install_k3s
  systemctl start --no-block k3s-agent
  finish "k3s-agent is starting"
}

main "$@"
