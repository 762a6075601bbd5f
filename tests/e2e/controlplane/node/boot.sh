#!/usr/bin/env bash
# A machine with containerd and a kubelet, as process 1 of mount and process namespaces of its own: when its input
# ends, the kernel ends every process in it, shims and containers too, and with the last one all its mounts are gone.
# boot.sh FOLDER PROGRAMS KUBELET_FLAG...
set -Eeuo pipefail
readonly HERE=$1 PROGRAMS=$2
shift 2
exec 3<&0 </dev/null

# What kubelet, containerd and CNI keep at fixed places stays in the machine's folder.
for place in var/lib var/log run; do
  mkdir -p "$HERE/$place"
  mount --bind "$HERE/$place" "/$place"
done
# A kubelet sets these for the whole kernel; here it sets copies of them.
for setting in vm/overcommit_memory vm/panic_on_oom kernel/panic kernel/panic_on_oops kernel/keys/root_maxkeys kernel/keys/root_maxbytes; do
  mkdir -p "$HERE/sysctl/${setting%/*}"
  cat "/proc/sys/$setting" >"$HERE/sysctl/$setting"
  mount --bind "$HERE/sysctl/$setting" "/proc/sys/$setting"
done

export PATH=$PROGRAMS:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
containerd --config "$HERE/containerd.toml" >"$HERE/containerd.log" 2>&1 &
until ctr version >/dev/null 2>&1; do sleep 0.1; done
ctr -n k8s.io images import --local --snapshotter native "$HERE/image.tar" >"$HERE/import.log" 2>&1
kubelet "$@" >"$HERE/kubelet.log" 2>&1 &
cat <&3
