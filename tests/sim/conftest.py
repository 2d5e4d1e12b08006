"""A simulated service for everything that needs no process of its own, and a tool to offer it."""

import pytest

from simulated_caller import serving

STEP_MS = 0.5
"""Quicker than the service is by itself, where a test does not measure time."""


@pytest.fixture
def service():
    def quick(*faults, **changes):
        return serving(*faults, **{"step_ms": STEP_MS, **changes})

    return quick


WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather of a city",
        "parameters": {
            "type": "object",
            "properties": {
                "city": {"type": "string"},
                "days": {"type": "integer"},
                "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]},
            },
            "required": ["city", "days"],
        },
    },
}


@pytest.fixture
def weather():
    return WEATHER
