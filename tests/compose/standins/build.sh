#!/usr/bin/env bash
# Builds the stand-in images under the names the project uses: $TRITON_IMAGE, $PROMETHEUS_IMAGE and
# $GRAFANA_IMAGE. Needs engine.sh's environment and a shared-library build of Python 3.10.
#   tritonserver  Triton 2.51.0 of the nvidia-pytriton wheel on this machine's Debian, Python 3.10, NumPy 1.26;
#                 its onnxruntime backend is embedded mode's, on ONNX Runtime 1.19.2 and the CPU
#   prometheus    the real one, 2.53, from Debian trixie
#   grafana       a stub (grafana_stub.py): reads the provisioning, renders nothing
# Exit 3: no Python 3.10 here.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
project=$(cd "$here/../../.." && pwd)
work=$ENGINE_DIR/standins
base=standin-base
python_home=${PYTHON310_HOME:-$(find "${PYENV_ROOT:-$HOME/.pyenv}/versions" -maxdepth 1 -name '3.10.*' 2> /dev/null | sort -V | tail -1)}
[ -e "$python_home/lib/libpython3.10.so.1.0" ] || { echo "no shared-library build of Python 3.10 (set PYTHON310_HOME)" >&2; exit 3; }
pip() { "$python_home/bin/python3.10" -m pip --quiet --disable-pip-version-check "$@"; }
pip_install() { pip install --no-deps --no-index --find-links wheels --no-compile --root-user-action ignore --target "$@"; }
lap() { printf 'stand-ins: %-12s %3d s\n' "$1" "$SECONDS" >&2; }

# Images live as long as their engine: there are some only where it has been left running.
if docker image inspect "$TRITON_IMAGE" "$PROMETHEUS_IMAGE" "$GRAFANA_IMAGE" > /dev/null 2>&1; then lap kept; exit; fi

rm -rf "$work/trees"
mkdir -p "$work/trees" "$work/wheels"
export TMPDIR=$work/trees # docker leaves a copy of every Dockerfile that it reads from stdin
cd "$work"

debian_base() { # what the models and the scripts need of this machine's Debian release, unpacked
  local tree=trees/debian archives=$work/archives package folder file
  mkdir -p "$archives/partial" "$tree"/usr/{bin,lib,lib64,sbin}
  : > trees/no-packages
  # With an empty list of installed packages apt fetches every dependency as well.
  apt-get -qq -o "Dir::State::status=$work/trees/no-packages" -o "Dir::Cache::archives=$archives" -o Debug::NoLocking=true \
    -o APT::Install-Recommends=false --yes --download-only install \
    base-files base-passwd bash coreutils curl dash findutils grep gzip libc-bin mawk passwd procps sed tar util-linux \
    libbz2-1.0 libffi8 libgomp1 liblzma5 libncursesw6 libreadline8 libsqlite3-0 libssl3 libstdc++6 libuuid1 wget zlib1g > /dev/null
  for folder in bin lib lib64 sbin; do ln -s "usr/$folder" "$tree/$folder"; done
  for package in "$archives"/*.deb; do
    dpkg-deb --fsys-tarfile "$package" | tar -x --keep-directory-symlink -C "$tree" \
      --exclude='./usr/share/doc' --exclude='./usr/share/man' --exclude='./usr/share/locale' --exclude='./usr/*/perl*'
  done
  for file in passwd group; do cp "$tree/usr/share/base-passwd/$file.master" "$tree/etc/$file"; done
  ln -s mawk "$tree/usr/bin/awk"
  tar -C "$tree" -cf - . | docker import - "$base" > /dev/null
  rm -rf "$tree"
}

python_tree() {
  local tree=trees/python
  mkdir -p "$tree/usr/local" "$tree/etc/ssl/certs"
  tar -C "$python_home" --exclude='*/test' --exclude='*/tests' --exclude='*.a' --exclude='*/idlelib' --exclude='*/tkinter' \
    --exclude='*/__pycache__' --exclude=lib/python3.10/site-packages -cf - bin/python3.10 lib | tar -C "$tree/usr/local" -xf -
  ln -s python3.10 "$tree/usr/local/bin/python3"
  # This machine's certificates: pip needs them in `docker build`.
  cp /etc/ssl/certs/ca-certificates.crt "$tree/etc/ssl/certs/"
  pip_install "$tree/usr/local/lib/python3.10/site-packages" numpy==1.26.4
}

triton_tree() {
  local tree=trees/triton/opt/tritonserver wheel=trees/wheel
  mkdir -p "$tree/bin" "$tree/lib" "$tree/backends/onnxruntime" trees/triton/opt/nvidia trees/triton/etc/ld.so.conf.d "$wheel"
  unzip -q wheels/nvidia_pytriton-*.whl 'pytriton/tritonserver/*' 'nvidia_pytriton.libs/*' -d "$wheel"
  local server=$wheel/pytriton/tritonserver
  cp -a "$server/bin/tritonserver" "$tree/bin/"
  cp -a "$server/backends/python" "$tree/backends/"
  cp -a "$server/python_backend_stubs/3.10/triton_python_backend_stub" "$tree/backends/python/"
  # The wheel's own copies of system libraries carry hashed names, so they shadow nothing.
  cp -a "$wheel/nvidia_pytriton.libs/." "$tree/lib/"
  rm -f "$tree"/lib/libpython3*
  rm -r "$wheel"
  echo /opt/tritonserver/lib > trees/triton/etc/ld.so.conf.d/00-tritonserver.conf
  cp "$project/embedded/backends/onnxruntime/model.py" "$tree/backends/onnxruntime/"
  # Beside the backend, where only its own stub finds it: the models cannot import it, as in the real image.
  pip_install "$tree/backends/onnxruntime" onnxruntime==1.19.2 flatbuffers packaging
  install -m 755 "$here/nvidia_entrypoint.sh" trees/triton/opt/nvidia/
  chmod -R u=rwX,go=rX trees/triton
  chmod 755 "$tree/bin/tritonserver" "$tree/backends/python/triton_python_backend_stub"
}

prometheus_tree() {
  local tree=trees/prometheus packages=trees/packages package tool
  mkdir -p "$packages" "$tree"/{bin,lib64,lib/x86_64-linux-gnu,etc/prometheus,prometheus,tmp}
  for package in prometheus promtool busybox-static libc6; do dpkg-deb -x "$ENGINE_DIR/debs/${package}"_*.deb "$packages"; done
  install -m 755 "$packages"/usr/bin/{prometheus,promtool,busybox} "$tree/bin/"
  for tool in sh wget ls cat; do ln -s busybox "$tree/bin/$tool"; done # wget and no curl, as in the real image
  local libraries=$packages/usr/lib/x86_64-linux-gnu
  cp -aL "$libraries"/{libc.so.6,libresolv.so.2,libnss_files.so.2,libnss_dns.so.2,libm.so.6} "$tree/lib/x86_64-linux-gnu/"
  cp -aL "$libraries/ld-linux-x86-64.so.2" "$tree/lib64/"
  echo 'hosts: files dns' > "$tree/etc/nsswitch.conf"
  printf 'root:x:0:0::/:/bin/sh\nnobody:x:65534:65534::/:/bin/false\n' > "$tree/etc/passwd"
  printf 'root:x:0:\nnobody:x:65534:\n' > "$tree/etc/group"
  chmod 1777 "$tree/tmp"
  chown -R 65534:65534 "$tree/etc/prometheus" "$tree/prometheus"
  rm -r "$packages"
}

debian_base & debian=$!
pip download --no-deps --only-binary :all: -d wheels \
  nvidia-pytriton==0.7.0 numpy==1.26.4 onnxruntime==1.19.2 flatbuffers packaging PyYAML
python_tree & python=$!
triton_tree & triton=$!
prometheus_tree
tar -C trees/prometheus -cf - . | docker import --change 'USER nobody' --change 'WORKDIR /prometheus' --change 'VOLUME ["/prometheus"]' \
  --change 'ENV PATH=/bin' --change 'ENTRYPOINT ["/bin/prometheus"]' - "$PROMETHEUS_IMAGE" > /dev/null
lap prometheus
wait "$python"
wait "$triton"
lap trees
wait "$debian"
lap debian

docker build --quiet -t standin-python -f - trees/python > /dev/null << DOCKERFILE
FROM $base
COPY . /
RUN ldconfig && python3 -m ensurepip > /dev/null && rm -rf ~/.cache
ENV PIP_CERT=/etc/ssl/certs/ca-certificates.crt
DOCKERFILE
docker build --quiet -t "$TRITON_IMAGE" -f - trees/triton > /dev/null << DOCKERFILE
FROM standin-python
COPY --chown=1000:1000 opt/tritonserver /opt/tritonserver
COPY opt/nvidia /opt/nvidia
COPY etc /etc
RUN ldconfig && useradd --uid 1000 --user-group --no-create-home triton-server
ENV PATH=/opt/tritonserver/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
WORKDIR /opt/tritonserver
ENTRYPOINT ["/opt/nvidia/nvidia_entrypoint.sh"]
DOCKERFILE
lap tritonserver

mkdir trees/grafana
cp "$here/grafana_stub.py" wheels/[Pp]y[Yy][Aa][Mm][Ll]*.whl trees/grafana/
docker build --quiet -t "$GRAFANA_IMAGE" -f - trees/grafana > /dev/null << 'DOCKERFILE'
FROM standin-python
COPY . /opt/stub/
RUN python3 -m pip install --quiet --no-index --no-deps --root-user-action ignore /opt/stub/*.whl \
    && useradd --uid 472 --gid 0 --no-create-home grafana \
    && install -d -o 472 -g 0 /var/lib/grafana /etc/grafana/provisioning
ENV GF_PATHS_DATA=/var/lib/grafana GF_PATHS_PROVISIONING=/etc/grafana/provisioning
USER 472
ENTRYPOINT ["python3", "/opt/stub/grafana_stub.py"]
DOCKERFILE
lap grafana
rm -rf trees
