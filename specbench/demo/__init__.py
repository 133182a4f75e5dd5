"""The embedded default: a small real target that is fetched once and served by every engine alike."""

from specbench.demo.target import demo_target, demo_target_path

__all__ = ["demo_target", "demo_target_path"]
