"""Property tests draw the same examples on every machine, and no clock judges them."""

from hypothesis import HealthCheck, settings

settings.register_profile(
    "same everywhere", derandomize=True, deadline=None, database=None,
    suppress_health_check=[HealthCheck.too_slow],
)  # fmt: skip
settings.load_profile("same everywhere")
