"""Why a repeat was paused after failures in a row."""

MOST_REASON_CHARACTERS = 500


def pause_reason(failures: int, id: str, error: str) -> str:
    """Returns the reason of the pause: how many failures, the last job, and its error, which is
    empty for a secret task."""
    often = "1 failure" if failures == 1 else f"{failures} failures in a row"
    last = f"{often}, the last of job {id}"
    return f"{last}: {error}"[:MOST_REASON_CHARACTERS] if error else last
