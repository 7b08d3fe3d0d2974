#!/bin/bash
# Starts tritonserver with its model-repository API locked by the admin key, through the image's own
# entrypoint, and drains it when it is told to stop. Whoever can load models runs code, so without a
# key there is no server.
set -euo pipefail

base_entrypoint=/opt/nvidia/nvidia_entrypoint.sh
key_file=${TRITON_ADMIN_KEY_FILE:-/run/secrets/triton_admin_key}
key_name=triton-admin-key
metrics_url=http://127.0.0.1:8002/metrics

refuse() {
  echo "triton: $1; run 'make secrets', then 'docker compose up -d' again" >&2
  exit 1
}

# docker compose run triton bash
[ "${1:-}" = tritonserver ] || exec "$base_entrypoint" "$@"

[ -f "$key_file" ] || refuse "no admin key at $key_file"
[ -r "$key_file" ] || refuse "the admin key $key_file is not readable by uid $(id -u)"
key=$(tr -d '[:space:]' < "$key_file")
[ "${#key}" -ge 32 ] || refuse "the admin key in $key_file has ${#key} characters, at least 32 are needed"

arguments=()
for argument in "$@"; do
  # compose.cpu.yml sets MODEL_CONFIG, so that the list of flags need not be written twice.
  [[ $argument == --model-config-name=* && -n ${MODEL_CONFIG:-} ]] && argument=--model-config-name=$MODEL_CONFIG
  arguments+=("$argument")
done

if [ "${MODEL_CONFIG:-}" = tensorrt ]; then
  # A plan made for another GPU or TensorRT is refused here, with how to rebuild it, instead of somewhere in a load.
  python3 /opt/bundle/scripts/build_engine.py --check --repository /models || exit 1
fi

rm -f "$TRITON_DRAIN_FILE"
"$base_entrypoint" "${arguments[@]}" \
  "--http-restricted-api=model-repository:$key_name=$key" \
  "--grpc-restricted-protocol=model-repository:$key_name=$key" &
server=$!

# shellcheck disable=SC2329  # drain calls it, and the trap calls drain
waiting_requests() {
  curl -fsS -m 1 "$metrics_url" | awk '/^nv_inference_pending_request_count\{/ {sum += $NF} END {printf "%d", sum}'
}

# shellcheck disable=SC2329
# Stopping loses nothing: what is new is refused (503), what is queued is answered, then the server ends.
drain() {
  touch "$TRITON_DRAIN_FILE"
  local quiet_looks=0
  for _ in {1..50}; do # 5 s, above the longest wait that the inference queue allows
    if [ "$(waiting_requests 2> /dev/null)" = 0 ]; then quiet_looks=$((quiet_looks + 1)); else quiet_looks=0; fi
    [ "$quiet_looks" -ge 3 ] && break
    sleep 0.1
  done
  kill -TERM "$server"
}
trap drain TERM INT

code=0
wait "$server" || code=$?
if [ -e "$TRITON_DRAIN_FILE" ]; then # that wait was cut short by the signal
  code=0
  wait "$server" || code=$?
fi
exit "$code"
