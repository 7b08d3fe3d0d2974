"""Not Grafana: a stub that reads Grafana's provisioning and answers a few of its API paths.

Where Grafana would log an error and show an empty page the stub ends with exit code 1, so a wrong
mount, a duplicate uid or an unreadable secret stops the test. It renders nothing.
"""

import base64
import json
import os
import re
import signal
import sys
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import yaml

VARIABLE = re.compile(r"\$\$|\$\{(\w+)\}|\$(\w+)")
DATASOURCE_PATH = re.compile(r"/api/datasources/(?:proxy/)?uid/([^/]+)/(.*)")


class ProvisioningError(Exception):
    """What Grafana would only have logged."""


def expand(value):
    """Replace $NAME and ${NAME} as Grafana does in its provisioning files; $$ is a dollar."""
    if isinstance(value, str):
        return VARIABLE.sub(
            lambda m: "$" if m[0] == "$$" else os.environ.get(m[1] or m[2], ""), value
        )
    if isinstance(value, dict):
        return {key: expand(item) for key, item in value.items()}
    return [expand(item) for item in value] if isinstance(value, list) else value


def provisioned(root, kind, key):
    """Yield the items under `key` of every YAML file of one kind."""
    for path in sorted([*(root / kind).glob("*.yml"), *(root / kind).glob("*.yaml")]):
        document = expand(yaml.safe_load(path.read_text()))
        if document.get("apiVersion") != 1:
            raise ProvisioningError(f"{path}: apiVersion must be 1")
        yield from document[key]


def read_datasources(root):
    """Return data sources by uid."""
    found = {}
    for source in provisioned(root, "datasources", "datasources"):
        if source["uid"] in found:
            raise ProvisioningError(f"data source uid {source['uid']} twice")
        found[source["uid"]] = source
    if sum(bool(source.get("isDefault")) for source in found.values()) != 1:
        raise ProvisioningError("exactly one data source must be the default")
    return found


def read_dashboards(root):
    """Return dashboards by uid, from every provider's folder."""
    found = {}
    for provider in provisioned(root, "dashboards", "providers"):
        folder = Path(provider["options"]["path"])
        files = sorted(folder.rglob("*.json"))
        if not files:
            raise ProvisioningError(f"no dashboard in {folder}")
        for path in files:
            dashboard = json.loads(path.read_text())
            if not dashboard.get("title") or dashboard.get("uid") in found:
                raise ProvisioningError(f"{path}: no title, or uid {dashboard.get('uid')} twice")
            meta = {"provisioned": True, "folderTitle": provider.get("folder", "")}
            found[dashboard["uid"]] = {"meta": meta, "dashboard": dashboard}
    return found


class Handler(BaseHTTPRequestHandler):
    """Answers health, search, dashboards, data sources and the data source proxy."""

    datasources: dict
    dashboards: dict
    credentials: str

    def do_GET(self):
        """Answer a read."""
        path = self.path.split("?")[0]
        if path == "/api/health":
            return self.reply(200, {"database": "ok", "version": "0.0.0-stub"})
        if self.headers.get("Authorization") != self.credentials:
            return self.reply(401, {"message": "Unauthorized"})
        if path == "/api/datasources":
            return self.reply(200, list(self.datasources.values()))
        if path == "/api/search":
            return self.reply(
                200,
                [
                    {"uid": uid, "title": found["dashboard"]["title"], "type": "dash-db"}
                    for uid, found in self.dashboards.items()
                ],
            )
        if path.startswith("/api/dashboards/uid/"):
            found = self.dashboards.get(path.rsplit("/", 1)[1])
            return self.reply(200, found) if found else self.reply(404, {"message": "not found"})
        match = DATASOURCE_PATH.match(self.path)
        if match and match[1] in self.datasources:
            return self.forward(self.datasources[match[1]]["url"], match[2])
        return self.reply(404, {"message": "not found"})

    def do_POST(self):
        """Forward a query, which this data source sends as a form."""
        return self.do_GET()

    def do_HEAD(self):
        """Answer the healthcheck's wget --spider."""
        return self.do_GET()

    def forward(self, url, tail):
        """Send the request on from here, as Grafana's proxy does: from inside this container."""
        is_health = tail == "health"
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0)) or None
        target = f"{url.rstrip('/')}/{'-/ready' if is_health else tail}"
        try:
            with urllib.request.urlopen(target, body, timeout=10) as response:
                answer = response.read()
        except urllib.error.HTTPError as error:
            return self.reply(error.code, error.read())
        except OSError as error:
            return self.reply(502, {"message": str(error)})
        return self.reply(200, {"status": "OK"} if is_health else answer)

    def reply(self, code, body):
        """Send `body`, bytes or anything JSON can hold."""
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, *args):
        """Say nothing per request."""


def main():
    """Read the provisioning, or fail; then serve until SIGTERM."""
    root = Path(os.environ["GF_PATHS_PROVISIONING"])
    try:
        Handler.datasources, Handler.dashboards = read_datasources(root), read_dashboards(root)
        password = Path(os.environ["GF_SECURITY_ADMIN_PASSWORD__FILE"]).read_text().strip()
        Path(os.environ["GF_PATHS_DATA"], "grafana.db").touch()
    except (ProvisioningError, OSError, KeyError, ValueError) as error:
        sys.exit(f"grafana stub: {type(error).__name__}: {error}")
    token = base64.b64encode(f"admin:{password}".encode()).decode()
    Handler.credentials = f"Basic {token}"
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    print(f"grafana stub: {len(Handler.dashboards)} dashboards", flush=True)
    ThreadingHTTPServer(("0.0.0.0", 3000), Handler).serve_forever()


if __name__ == "__main__":
    main()
