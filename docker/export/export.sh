#!/bin/bash
# The export job: weights -> ONNX and, where it will be served, ONNX -> TensorRT engine.
# Each step looks at what is there first and is done in a second when it is up to date.
set -euo pipefail

python=${EXPORT_PYTHON:-python3}
version_folder=model_repository/resnet50_inference/1

if [ ! -w "$version_folder" ]; then
  echo "export: uid $(id -u) cannot write $version_folder, which belongs to uid $(stat -c %u "$version_folder");" \
    "set BUNDLE_UID and BUNDLE_GID in .env to the owner of this checkout, or change the owner" >&2
  exit 2
fi

"$python" scripts/export_onnx.py --weights "${WEIGHTS:?}"
if [ "${MODEL_CONFIG:?}" = tensorrt ]; then
  "$python" scripts/build_engine.py
fi
