"""What `from mita import …` promises. Growing this list is a decision, not an accident."""

import mita

PROMISED = [
    "Abort",
    "All",
    "Cron",
    "Every",
    "Handle",
    "Job",
    "JobCancelled",
    "JobEvent",
    "JobFailed",
    "LeaseLost",
    "Mita",
    "MitaError",
    "Reschedule",
    "Retry",
    "StoreError",
    "Unavailable",
    "UsageError",
]


def test_the_front_door_is_narrow() -> None:
    assert sorted(mita.__all__) == PROMISED
    assert all(hasattr(mita, name) for name in PROMISED)


def test_every_error_is_a_mita_error() -> None:
    for error in (mita.UsageError, mita.StoreError, mita.JobFailed, mita.JobCancelled, mita.LeaseLost):
        assert issubclass(error, mita.MitaError)
