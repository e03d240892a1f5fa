"""Mita inside other frameworks. Each module needs its framework; `import mita` imports none."""
