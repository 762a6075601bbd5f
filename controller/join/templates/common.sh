set -Eeuo pipefail
umask 022
# Nothing is known about the caller: no HOME, a minimal PATH, perhaps no network yet, perhaps a second run.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export HOME=${HOME:-/root}
export DEBIAN_FRONTEND=noninteractive NEEDRESTART_MODE=a

readonly STATE=/var/lib/gpuas-join
readonly MARKER=$STATE/$NODE_NAME.done
readonly LOG=/var/log/gpuas-join.log
readonly DEADLINE=$((SECONDS + 840)) # a little less than the controller waits for a join
WORK=

log() {
  local line
  line="$(date -u +%Y-%m-%dT%H:%M:%SZ) $*"
  printf '%s\n' "$line"
  { printf '%s\n' "$line" >&3; } 2>/dev/null || true
}

# Own log beside whatever the caller keeps; one run at a time; nothing to do after the first success.
begin() {
  exec 3>&2 || exec 3>/dev/null
  mkdir -p "$STATE" "${LOG%/*}"
  touch "$LOG"
  chmod 0600 "$LOG"
  exec >>"$LOG" 2>&1 </dev/null
  trap 'log "failed at line $LINENO"' ERR
  exec 9>"$STATE/lock"
  if ! flock -n 9; then
    log "another run is at work"
    exit 0
  fi
  if [[ -e $MARKER ]]; then
    log "$NODE_NAME has joined already"
    exit 0
  fi
  WORK=$(mktemp -d)
  trap 'rm -rf -- "$WORK"' EXIT
  log "joining as $NODE_NAME through $SERVER"
}

finish() {
  touch "$MARKER"
  log "done: $1"
}

# Runs a command until it succeeds, with growing pauses, and ends the script at the deadline.
retry() {
  local what=$1 pause=2
  shift
  until "$@"; do
    if ((SECONDS + pause > DEADLINE)); then
      log "given up: $what"
      exit 1
    fi
    log "not yet: $what; again in $pause s"
    sleep "$pause"
    pause=$((pause < 16 ? pause * 2 : 30))
  done
}

fetch() { # URL FILE
  curl -fsSL --proto '=https' --connect-timeout 10 --max-time 300 -o "$2" "$1"
}

# No data goes there and nothing of the answer is used, so the certificate is of no interest yet.
server_answers() {
  curl -ksS -o /dev/null --connect-timeout 5 --max-time 10 "$SERVER/healthz"
}

wait_for_clock() {
  local tries
  if ! command -v timedatectl >/dev/null; then return 0; fi
  for ((tries = 0; tries < 30; tries++)); do
    if [[ $(timedatectl show --property=NTPSynchronized --value || true) == yes ]]; then return 0; fi
    sleep 2
  done
  log "warning: the clock is not synchronised; certificates may look not yet valid"
}

# An upgrade at first boot holds the package lock and replaces driver libraries under the loaded module.
mask_upgrades() {
  timeout 60 systemctl mask --now apt-daily.timer apt-daily-upgrade.timer ||
    log "warning: the package timers could not be masked"
  timeout 60 systemctl mask apt-daily.service apt-daily-upgrade.service unattended-upgrades.service ||
    log "warning: automatic upgrades could not be masked"
}

hold_driver() {
  local packages=()
  if ! command -v dpkg-query >/dev/null; then return 0; fi
  # shellcheck disable=SC2016 # the braces are dpkg-query's
  mapfile -t packages < <(
    dpkg-query -W -f='${db:Status-Abbrev} ${Package}\n' 'nvidia-*' 'libnvidia-*' 2>/dev/null |
      awk '$1 == "ii" { print $2 }'
  )
  if ((${#packages[@]} > 0)); then
    timeout 60 apt-mark hold "${packages[@]}" >/dev/null || log "warning: the driver packages could not be held"
  fi
}

# Ubuntu lets `apt` wait for the lock by default, but not `apt-get`.
apt_get() {
  timeout 900 apt-get -y -o DPkg::Lock::Timeout=600 -o Acquire::Retries=3 "$@"
}

add_repository() { # NAME KEY_URL LINE
  mkdir -p /etc/apt/keyrings &&
    fetch "$2" "$WORK/$1.asc" &&
    install -m 0644 "$WORK/$1.asc" "/etc/apt/keyrings/$1.asc" &&
    printf 'deb [signed-by=/etc/apt/keyrings/%s.asc] %s\n' "$1" "$3" >"/etc/apt/sources.list.d/$1.list" &&
    apt_get update
}

need_curl() {
  if command -v curl >/dev/null; then return 0; fi
  apt_get update && apt_get install --no-install-recommends curl ca-certificates
}

start_gpu_services() {
  local unit
  if ((GPUS == 0)); then return 0; fi
  for unit in nvidia-persistenced nvidia-fabricmanager; do
    if [[ $unit == nvidia-fabricmanager ]] && ((GPUS < 8)); then continue; fi # only NVSwitch needs it
    if systemctl cat "$unit.service" >/dev/null 2>&1; then
      timeout 120 systemctl start "$unit.service" || log "warning: $unit did not start"
    fi
  done
}

# The controller judges the GPUs by what the node offers; here they only get time to appear.
wait_for_gpus() {
  local give_up=$((SECONDS + 180)) seen=0
  if ((GPUS == 0)); then return 0; fi
  while true; do
    seen=$(timeout 60 nvidia-smi -L 2>/dev/null | grep -c '^GPU ' || true)
    if ((seen >= GPUS)); then
      log "the driver lists $seen of $GPUS GPUs"
      return 0
    fi
    if ((SECONDS >= give_up)); then break; fi
    sleep 5
  done
  log "warning: the driver lists $seen of $GPUS GPUs; going on without the others"
}

has_toolkit() {
  command -v nvidia-container-runtime >/dev/null || [[ -x /usr/local/nvidia/toolkit/nvidia-container-runtime ]]
}

install_toolkit() {
  apt_get update && apt_get install --no-install-recommends nvidia-container-toolkit && return 0
  # shellcheck disable=SC2016 # $(ARCH) is apt's
  add_repository nvidia-container-toolkit https://nvidia.github.io/libnvidia-container/gpgkey \
    'https://nvidia.github.io/libnvidia-container/stable/deb/$(ARCH) /' &&
    apt_get install --no-install-recommends nvidia-container-toolkit
}

# Has to be there before the agent looks for it; the GPU Operator may bring it later instead.
need_toolkit() {
  if ((GPUS == 0)) || has_toolkit; then return 0; fi
  install_toolkit || log "warning: the NVIDIA container toolkit is missing and could not be installed"
}
