"""Registers the plugin and the fixtures; everything else lives in reports/ and fixtures/."""

pytest_plugins = [
    "pytester",
    "reports.plugin",
    "reports.idle_plugins",
    "fixtures.device",
    "fixtures.progress",
    "fixtures.pace",
    "fixtures.model",
    "fixtures.chapter",
    "fixtures.residual_stream",
    "fixtures.next_tokens",
    "fixtures.lessons",
    "fixtures.weight_errors",
    "fixtures.corpora",
    "fixtures.battery",
    "fixtures.quality",
    "fixtures.speculation",
    "fixtures.techniques",
    "fixtures.timing",
    "fixtures.memory_limits",
    "fixtures.slow",
]
