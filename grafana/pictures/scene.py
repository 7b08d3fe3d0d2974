"""Plays a scene on the embedded server for a real Prometheus, then draws the dashboards of it.

About half an hour of traffic with 15 % bad images, a release, a killed Python stub and a rush.
What Prometheus recorded stays in --folder, so drawing can be repeated without playing.
"""

from __future__ import annotations

import argparse
import json
import math
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import requests
import yaml
from PIL import Image

from embedded.preflight import free_ports
from embedded.server import EmbeddedServer
from grafana.pictures.traffic import Traffic

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
SCRAPE_S = 5
# What Grafana is told (provisioning/datasources), so windows are as long as on a real page.
PROVISIONED_SCRAPE_S = 15
PALETTE_COLOURS = 256
# Minutes after the start of what happens.
RELEASE_AT, CRASH_AT, RUSH_AT, RUSH_ENDS, END = 6.0, 10.0, 15.0, 16.5, 27.0
STUB_DEAD_S = 6.0
EXAMPLE = "example: python -m grafana.pictures.scene --pipeline efficientnet_lite0"


def rate_per_s(seconds: float) -> float:
    """Requests per second: a slow swell, and the rush."""
    minutes = seconds / 60
    swell = 4 + math.sin(minutes / 2)
    return swell * 2 if RUSH_AT < minutes < RUSH_ENDS else swell


@contextmanager
def prometheus(folder: Path) -> Iterator[str]:
    """A Prometheus on the folder's configuration and data; yields its URL."""
    (port,) = free_ports(1)
    command = [
        "prometheus",
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    with (folder / "prometheus.log").open("ab") as log:
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
    url = f"http://127.0.0.1:{port}"
    try:
        _wait_for(f"{url}/-/ready")
        yield url
    finally:
        process.terminate()
        process.wait(30)


def _wait_for(url: str) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            if requests.get(url, timeout=2).ok:
                return
        except requests.RequestException:
            pass
        time.sleep(0.5)
    raise SystemExit(f"error: {url} does not answer")


def write_configuration(folder: Path, pipeline: str, target: str) -> None:
    """The bundle's own configuration and rules, scraping `target` more often."""
    knobs = folder / "knobs.env"
    knobs.write_text(f"EXPECTED_PIPELINES={pipeline}\n", encoding="utf-8")
    generator = [sys.executable, str(ROOT / "scripts" / "generate_rules.py")]
    subprocess.run(
        [*generator, "--env-file", str(knobs), "--output", str(folder)],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    config = yaml.safe_load((ROOT / "prometheus" / "prometheus.yml").read_text(encoding="utf-8"))
    config["global"] = {"scrape_interval": f"{SCRAPE_S}s", "evaluation_interval": f"{SCRAPE_S}s"}
    config["scrape_configs"] = [{"job_name": "triton", "static_configs": [{"targets": [target]}]}]
    config.pop("alerting")
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config), encoding="utf-8")


def load(server: EmbeddedServer, model: str) -> None:
    """Ask the server to load what is in the repository now."""
    url = f"{server.http_url}/v2/repository/models/{model}/load"
    requests.post(url, headers=server.admin_headers, timeout=60).raise_for_status()


def kill_stub(server: EmbeddedServer, model: str) -> None:
    """End the Python process of one model, as the kernel does when memory runs out."""
    for process in psutil.Process(server.pid).children(recursive=True):
        if any(model in argument for argument in process.cmdline()):
            process.kill()


def play(folder: Path, pipeline: str) -> None:
    """Run the whole scene; it takes END minutes."""
    repository = folder / "repository"
    ignored = shutil.ignore_patterns("__pycache__", "*.plan")
    for model in (ROOT / "model_repository").glob(f"{pipeline}_*"):
        shutil.copytree(model, repository / model.name, ignore=ignored)
    postprocess = repository / f"{pipeline}_postprocess"
    with EmbeddedServer(repository, log_path=folder / "server.log") as server:
        write_configuration(folder, pipeline, server.metrics_url.split("/")[2])
        infer_url = f"{server.http_url}/v2/models/{pipeline}_ensemble/infer"
        with prometheus(folder), Traffic(infer_url, rate_per_s) as traffic:
            started = time.time()
            _wait_until(started, RELEASE_AT)
            shutil.copytree(postprocess / "1", postprocess / "2", ignore=ignored)
            load(server, postprocess.name)
            _wait_until(started, CRASH_AT)
            kill_stub(server, postprocess.name)
            time.sleep(STUB_DEAD_S)
            (postprocess / "2" / "model.py").touch()
            load(server, postprocess.name)
            _wait_until(started, END)
            print(f"answers by HTTP status: {traffic.statuses}", file=sys.stderr)
    times = {"started": started, "crashed": started + CRASH_AT * 60, "ended": time.time()}
    (folder / "times.json").write_text(json.dumps(times), encoding="utf-8")


def _wait_until(started: float, minute: float) -> None:
    print(f"until minute {minute:g}", file=sys.stderr)
    time.sleep(max(0.0, started + minute * 60 - time.time()))


def draw(folder: Path, pipeline: str, pictures: Path) -> None:
    """overview.png and stages.png, of the whole scene."""
    times = json.loads((folder / "times.json").read_text(encoding="utf-8"))
    pages = {"overview": "triton-overview", "stages": "triton-stages"}
    pairs = [
        f"{ROOT / 'grafana' / 'dashboards' / uid}.json={pictures / name}.png"
        for name, uid in pages.items()
    ]
    with prometheus(folder) as url:
        options = {
            "prometheus": url,
            "scrape": PROVISIONED_SCRAPE_S,
            "minutes": math.ceil(END),
            "end": math.floor(times["ended"]) - SCRAPE_S,
            "var": f"pipeline={pipeline}",
        }
        flags = [f"--{name}={value}" for name, value in options.items()]
        subprocess.run(["node", str(HERE / "draw.mjs"), *flags, *pairs], check=True)
    for name in pages:
        _shrink(pictures / f"{name}.png")


def _shrink(picture: Path) -> None:
    """A palette makes a screenshot less than half as large; the eye sees no difference."""
    with Image.open(picture) as image:
        small = image.convert("RGB").quantize(PALETTE_COLOURS, kmeans=2, dither=Image.Dither.NONE)
    small.save(picture, optimize=True)


def main() -> int:
    """Exit status: 0 drawn, 2 something that is needed is missing."""
    parser = argparse.ArgumentParser(
        prog="python -m grafana.pictures.scene", description=__doc__, epilog=EXAMPLE
    )
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--pipeline", default="resnet50", help="prefix of the models to serve")
    parser.add_argument("--folder", type=Path, default=HERE / "build" / "scene")
    parser.add_argument("--pictures", type=Path, default=ROOT / "docs" / "pictures")
    parser.add_argument("--draw-only", action="store_true", help="use what is in --folder")
    arguments = parser.parse_args()
    missing = [tool for tool in ("prometheus", "node", "chromium") if shutil.which(tool) is None]
    if missing or not (HERE / "node_modules").is_dir():
        print(f"error: missing {missing or 'node_modules'}: see README.md here", file=sys.stderr)
        return 2
    if not arguments.draw_only:
        shutil.rmtree(arguments.folder, ignore_errors=True)
        arguments.folder.mkdir(parents=True)
        play(arguments.folder, arguments.pipeline)
    draw(arguments.folder, arguments.pipeline, arguments.pictures)
    return 0


if __name__ == "__main__":
    sys.exit(main())
