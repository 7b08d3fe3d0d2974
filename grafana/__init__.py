"""Grafana: provisioning, the four dashboards and the source that generates them."""
