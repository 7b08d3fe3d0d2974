#!/usr/bin/env bash
# A private Docker engine for the tests, of Debian packages unpacked (not installed) under $ENGINE_DIR:
#   engine.sh fetch   packages and their unpacked trees       engine.sh up     fetch, then start dockerd
#   engine.sh env     print what a shell must export          engine.sh down   stop dockerd, unmount
#   engine.sh purge   down, and remove the packages as well
# Exit 3: this machine cannot run it (not root, or not Debian); the reason is on stderr.
set -euo pipefail

ENGINE_DIR=${ENGINE_DIR:-/tmp/rtb-engine} # short: unix sockets allow 107 bytes
RUN=${ENGINE_RUN:-$ENGINE_DIR/run}
ROOT=$ENGINE_DIR/root
SUBNETS=172.30.0.0
SOCKET=unix://$RUN/docker.sock
ENGINE_PACKAGES=(docker.io docker-cli docker-buildx docker-compose containerd tini)
STANDIN_PACKAGES=(prometheus promtool busybox-static libc6)

say() { printf 'engine: %s\n' "$*" >&2; }
cannot() { say "$*"; exit 3; }

# A zombie keeps its pid but serves nobody.
is_alive() { [ -r "/proc/$1/stat" ] && ! grep -qE '^[0-9]+ \(.*\) Z' "/proc/$1/stat"; }

fetch() {
  [ -x "$ROOT/usr/sbin/dockerd" ] && return
  [ "$(id -u)" = 0 ] || cannot "needs root: the engine mounts and routes"
  [ -n "$(command -v apt-get)" ] || cannot "needs Debian: the engine is made of its packages"
  # Compose and BuildKit come from the next release; only runc is tied to this one's libc.
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends iptables runc > /dev/null
  local apt=$ENGINE_DIR/apt debs=$ENGINE_DIR/debs codename mirror
  mkdir -p "$apt/lists/partial" "$apt/cache/archives/partial" "$debs" "$ENGINE_DIR/config/cli-plugins"
  codename=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
  # shellcheck disable=SC2016  # the dollar belongs to apt's format
  mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' "Codename: $codename" | head -1)
  echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror trixie main" > "$apt/sources.list"
  local options=(-o "Dir::Etc::sourcelist=$apt/sources.list" -o Dir::Etc::sourceparts=/nonexistent
    -o "Dir::State::lists=$apt/lists" -o "Dir::Cache=$apt/cache" -o Acquire::Languages=none -o APT::Sandbox::User=root)
  apt-get "${options[@]}" update -qq
  (cd "$debs" && apt-get "${options[@]}" download -qq "${ENGINE_PACKAGES[@]}" "${STANDIN_PACKAGES[@]}")
  local package
  for package in "${ENGINE_PACKAGES[@]}"; do
    dpkg-deb -x "$debs/${package}"_*.deb "$ROOT"
  done
  ln -sf "$ROOT"/usr/libexec/docker/cli-plugins/* "$ENGINE_DIR/config/cli-plugins/"
  say "unpacked $(du -sm "$debs" | cut -f1) MB of packages under $ENGINE_DIR"
}

start() {
  mkdir -p "$RUN"
  if [ -s "$RUN/pid" ]; then
    is_alive "$(cat "$RUN/pid")" && { say "already up"; return; }
    rm -f "$RUN/pid" # dockerd would take a zombie's pid for a live daemon
    restore_network
  fi
  [ ! -e /sys/class/net/docker0 ] || cannot "another Docker engine runs here (docker0 exists); two would fight over it"
  # For stop: what dockerd changes on the host.
  iptables -S FORWARD | head -1 > "$RUN/forward-policy"
  cat /proc/sys/net/ipv4/ip_forward > "$RUN/ip-forward"
  PATH=$ROOT/usr/sbin:$ROOT/usr/bin:$PATH setsid dockerd --data-root "$RUN/data" --exec-root "$RUN/exec" \
    -H "$SOCKET" --pidfile "$RUN/pid" --ip 127.0.0.1 --default-address-pool base=$SUBNETS/16,size=24 \
    --log-level warn > "$RUN/dockerd.log" 2>&1 < /dev/null &
  for _ in $(seq 60); do
    if "$ROOT/usr/bin/docker" -H "$SOCKET" version > /dev/null 2>&1; then
      say "up: $("$ROOT/usr/bin/docker" -H "$SOCKET" version --format 'engine {{.Server.Version}}')"
      return
    fi
    sleep 0.5
  done
  tail -20 "$RUN/dockerd.log" >&2
  say "dockerd did not come up"
  exit 1
}

restore_network() {
  ip link del docker0 2> /dev/null || true
  iptables-save | grep -vE "DOCKER|docker0|br-[0-9a-f]{12}|-s ${SUBNETS%.*.*}\." | iptables-restore
  # The line is an iptables command: -P FORWARD ACCEPT.
  xargs iptables < "$RUN/forward-policy"
  cat "$RUN/ip-forward" > /proc/sys/net/ipv4/ip_forward
}

stop() {
  [ -s "$RUN/pid" ] || return 0
  local pid
  pid=$(cat "$RUN/pid")
  kill "$pid" 2> /dev/null || true
  for _ in $(seq 60); do is_alive "$pid" || break; sleep 0.5; done
  if is_alive "$pid"; then say "dockerd $pid did not stop"; exit 1; fi
  rm -f "$RUN/pid"
  restore_network
  awk -v run="$RUN/" 'index($2, run) == 1 {print $2}' /proc/mounts | sort -r | xargs -r umount -l
  rm -rf "$RUN"
  say "stopped"
}

case ${1:-} in
  fetch) fetch ;;
  up)
    fetch
    start
    ;;
  env) echo "export DOCKER_HOST=$SOCKET DOCKER_CONFIG=$ENGINE_DIR/config PATH=$ROOT/usr/bin:$PATH ENGINE_DIR=$ENGINE_DIR" ;;
  down) stop ;;
  purge)
    stop
    rm -rf "$ENGINE_DIR"
    ;;
  *) say "usage: engine.sh fetch|up|env|down|purge"; exit 2 ;;
esac
