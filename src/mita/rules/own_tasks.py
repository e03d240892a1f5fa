"""The tasks of Mita itself, beside those of flows."""

BULK_TASK = "mita.bulk"  # of a bulk run
BULK_QUEUE = "mita.bulk"
