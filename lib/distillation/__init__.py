"""Distillation: what a temperature does to a soft label, what gradient it leaves, and what a small student gains."""
