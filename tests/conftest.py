import socket

import pytest
from hypothesis import HealthCheck, settings


@pytest.fixture
def free_port():
    """A port of this machine that nobody listened on a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


# These machines are shared and slow by turns: how long one example takes says nothing.
settings.register_profile("shared", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("shared")
