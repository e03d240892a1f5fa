"""How much is read and woken at a time, and the name of a lock."""

# Jobs looked at in one call at most: the thousands that wait for one busy key are blocked in parts.
CLAIM_SCAN_JOBS = 1000
WOKEN_KEYS = 200  # keys of one queue whose waiting jobs a claim wakes at most
COUNTED_WAITERS = 100  # jobs of one key that are woken at most at a time
WOKEN_SHARE = 4  # the clock wakes the jobs of a key when a quarter of its burst may start
# In place of a key, for the lock of a queue. No key contains a NUL.
QUEUE_LOCK = "\0queue"
