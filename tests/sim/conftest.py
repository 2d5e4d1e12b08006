"""A simulated service for everything that needs no process of its own, and a tool to offer it."""

import pytest

from simulated_caller import serving


@pytest.fixture
def service():
    return serving


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
