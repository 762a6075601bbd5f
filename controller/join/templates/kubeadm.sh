#!/usr/bin/env bash
{{ .MARK }}
{{ .JOIN }}
#
# Joins this machine to a kubeadm cluster as a worker. Runs as root at first boot and does nothing when run again.

readonly NODE_NAME={{ .NODE_NAME }}
readonly SERVER={{ .SERVER }}
readonly JOIN_CONFIGURATION={{ .JOIN_CONFIGURATION }}
readonly DISCOVERY={{ .DISCOVERY }}
readonly GPUS={{ .GPUS }}
readonly KUBERNETES_MINOR={{ .KUBERNETES_MINOR }}
readonly KUBERNETES_VERSION={{ .KUBERNETES_VERSION }}

# include common.sh

readonly PRIVATE=/etc/kubernetes/gpuas-join

prepare_kernel() {
  printf 'overlay\nbr_netfilter\n' >/etc/modules-load.d/gpuas-join.conf
  modprobe -a overlay br_netfilter || log "warning: overlay or br_netfilter could not be loaded"
  printf 'net.ipv4.ip_forward = 1\nnet.bridge.bridge-nf-call-iptables = 1\n' >/etc/sysctl.d/90-gpuas-join.conf
  sysctl -q -p /etc/sysctl.d/90-gpuas-join.conf || log "warning: not every kernel setting was accepted"
  swapoff -a
  if [[ -f /etc/fstab ]]; then sed -i -E '/^[^#]+[[:space:]]swap[[:space:]]/s/^/# /' /etc/fstab; fi
}

containerd_major() {
  containerd --version 2>/dev/null | sed -nE 's/^.* v?([0-9]+)\.[0-9]+\.[0-9]+.*$/\1/p' || true
}

# From 1.36 on the kubelet wants containerd 2; what the distribution has may be older.
need_containerd() {
  local wanted=1 have release
  if ((${KUBERNETES_MINOR#1.} >= 36)); then wanted=2; fi
  have=$(containerd_major)
  if ((${have:-0} >= wanted)); then return 0; fi
  if ((wanted < 2)); then
    apt_get update && apt_get install --no-install-recommends containerd runc
    return
  fi
  # shellcheck disable=SC1091
  release=$(. /etc/os-release && printf '%s' "$VERSION_CODENAME") || return 1
  # shellcheck disable=SC2016 # $(ARCH) is apt's
  add_repository docker https://download.docker.com/linux/ubuntu/gpg \
    "https://download.docker.com/linux/ubuntu $release stable" &&
    apt_get install --no-install-recommends --allow-change-held-packages containerd.io
}

# A packaged configuration may have the CRI plug-in switched off, so it is written anew.
configure_containerd() {
  mkdir -p /etc/containerd
  containerd config default | sed 's/SystemdCgroup = false/SystemdCgroup = true/' >/etc/containerd/config.toml
  if ((GPUS > 0)) && command -v nvidia-ctk >/dev/null; then
    nvidia-ctk runtime configure --runtime=containerd --set-as-default ||
      log "warning: the NVIDIA runtime could not be configured"
  fi
  systemctl enable containerd
  systemctl restart containerd
}

# The package repository is one per minor version.
need_kubernetes() {
  local exact=${KUBERNETES_VERSION:+=$KUBERNETES_VERSION-*}
  add_repository kubernetes "https://pkgs.k8s.io/core:/stable:/v$KUBERNETES_MINOR/deb/Release.key" \
    "https://pkgs.k8s.io/core:/stable:/v$KUBERNETES_MINOR/deb/ /" &&
    apt_get install --allow-change-held-packages "kubelet$exact" "kubeadm$exact" conntrack &&
    apt-mark hold kubelet kubeadm
}

# Both are JSON, which is YAML as it stands. They hold the token and are gone after the join.
write_configuration() {
  (
    umask 077
    rm -rf "$PRIVATE"
    mkdir -p "$PRIVATE"
    printf '%s\n' "$JOIN_CONFIGURATION" >"$PRIVATE/join.yaml"
    if [[ -n $DISCOVERY ]]; then printf '%s\n' "$DISCOVERY" >"$PRIVATE/discovery.conf"; fi
  )
  chmod 0700 "$PRIVATE"
}

join() {
  if [[ -s /etc/kubernetes/kubelet.conf && -s /var/lib/kubelet/config.yaml ]]; then return 0; fi
  timeout 600 kubeadm join --config "$PRIVATE/join.yaml" && return 0
  # A half-made join fails the next one's checks.
  timeout 120 kubeadm reset --force || true
  write_configuration
  return 1
}

main() {
  begin
  mask_upgrades
  retry "curl is installed" need_curl
  retry "$SERVER answers" server_answers
  wait_for_clock
  start_gpu_services
  wait_for_gpus
  prepare_kernel
  retry "containerd is installed" need_containerd
  need_toolkit
  configure_containerd
  retry "kubelet and kubeadm are installed" need_kubernetes
  hold_driver
  systemctl enable kubelet
  write_configuration
  retry "the cluster accepts $NODE_NAME" join
  rm -rf "$PRIVATE"
  finish "the kubelet is running"
}

main "$@"
