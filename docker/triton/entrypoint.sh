#!/bin/bash
# Starts tritonserver with its model-repository API locked by the admin key, through the image's own
# entrypoint. Whoever can load models runs code, so without a key there is no server.
set -euo pipefail

base_entrypoint=/opt/nvidia/nvidia_entrypoint.sh
key_file=${TRITON_ADMIN_KEY_FILE:-/run/secrets/triton_admin_key}
key_name=triton-admin-key

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

exec "$base_entrypoint" "${arguments[@]}" \
  "--http-restricted-api=model-repository:$key_name=$key" \
  "--grpc-restricted-protocol=model-repository:$key_name=$key"
