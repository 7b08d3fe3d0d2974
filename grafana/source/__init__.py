"""The source of the four dashboards; `python -m grafana.source` writes the JSON Grafana reads.

panels.py and dashboard.py know Grafana's format, shared.py the queries' common parts, and one
module per page says what is on it.
"""

from grafana.source.dashboard import Dashboard
from grafana.source.host import HOST_PAGE
from grafana.source.overview import OVERVIEW
from grafana.source.releases import RELEASES
from grafana.source.stages import STAGES

DASHBOARDS: tuple[Dashboard, ...] = (OVERVIEW, STAGES, HOST_PAGE, RELEASES)
