"""What to know about a memory store."""

from mita.model.view import Finding, Health

from .context import MemoryContext


def doctor(context: MemoryContext) -> list[Finding]:
    """Warn that nothing is kept, and count the jobs."""
    return [
        Finding(
            "durability",
            "memory: everything is gone when the process ends",
            Health.WARN,
            "fit for tests; use a sqlite:// URL to keep jobs",
        ),
        Finding("jobs", f"{len(context.state.records)} in memory"),
    ]
