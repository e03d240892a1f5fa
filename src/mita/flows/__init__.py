"""Flows on a store: telling the dependants of a job that it has ended, and the jobs of a flow that
run no code of the user.

A job that succeeds tells its dependants before it is settled, while it has its lease. If its worker
dies in between, the next run finds that it has told them, and does not call the handler again. All
other endings are told after they are settled. If the process dies before that, the job of the flow
finds it on its next patrol."""
