"""Releases without a dropped request: what scripts/publish.py is made of.

A release is an inference version N and the postprocess version (labels) that it is served with.
While it is checked, both versions are loaded side by side and the ensemble is pinned to the old
one; one load of the ensemble then switches all traffic at once. Triton resolves every step's
version when a request arrives, so each request is answered by one release from start to end.

``versions`` what lies on disk · ``candidate`` what is to be released, checked and staged ·
``server`` the running server · ``traffic`` which release it serves · ``shadow`` old against new ·
``smoke`` does the right one answer · ``journal`` what happened, what is unfinished ·
``release`` the lock and the way back · ``publication`` · ``rollback``
"""


class ReleaseRefused(Exception):
    """A negative result: the old version keeps serving; one line with cause and fix (exit 1)."""
