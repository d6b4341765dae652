"""Serving as a queue in front of slots: policies, an exact simulator, latency by definition, families of workloads."""
