"""The commands: their modules, and what `mita --help` says about each. The module of a command is
imported when the command is used."""

COMMANDS: dict[str, dict[str, str]] = {
    "worker": {
        "worker": "run jobs until it is stopped",
    },
    "scheduler": {
        "scheduler": "fire repeats until it is stopped",
    },
    "relay": {
        "relay": "send the jobs of an outbox to the store",
        "outbox": "show the outbox of an app, or change its parked rows",
    },
    "demo": {
        "demo": "watch example jobs: now, delayed, retried, one at a time, repeated, in flows",
    },
    "enqueue": {
        "enqueue": "enqueue one job",
    },
    "inspect": {
        "jobs": "list jobs, newest first",
        "show": "show everything about one job, or the steps of a flow",
    },
    "dead": {
        "dead": "list the failed jobs in groups of the same error, the largest group first",
    },
    "why": {
        "why": "explain why a job, a step or a flow is not running, and what to do about it",
    },
    "flows": {
        "flows": "list flows, newest first",
    },
    "history": {
        "history": "show how many runs ended, by queue or by task",
    },
    "top": {
        "top": "watch queues, workers, rates and running jobs",
    },
    "web": {
        "web": "serve the dashboard",
    },
    "amend": {
        "reschedule": "run jobs at another time; failed jobs are retried then",
        "cancel": "cancel jobs or flows; running jobs are asked to stop",
        "retry": "run failed or cancelled jobs again, with their counters at zero",
        "delete": "delete jobs that have ended",
    },
    "arguments": {
        "amend": "give a job that does not run other arguments",
    },
    "bulk_runs": {
        "bulk": "list bulk runs, or show one",
    },
    "signal_job": {
        "signal": "give a job the value that its handler waits for",
    },
    "queues": {
        "queues": "show the number of jobs by state, and the age of the oldest ready job",
        "pause": "start no more jobs of these queues; running jobs continue",
        "resume": "start jobs of paused queues again",
        "hold": "start no job with this resource key until a point in time",
        "unhold": "end a hold: start jobs with this resource key again",
        "workers": "list the workers that are alive",
    },
    "limits": {
        "limit": "limit how many jobs of a queue or key run",
        "keys": "list the keys that are held, waited for or limited",
    },
    "repeats": {
        "repeats": "list, add, explain or remove repeats",
    },
    "audit": {
        "audit": "show who changed what, newest first",
    },
    "check": {
        "check": "check that the app can be imported and the store answers",
    },
    "doctor": {
        "doctor": "check the store, its workers and its repeats",
        "migrate": "create the database, or update its schema",
    },
    "completion": {
        "completion": "print a script that completes commands in a shell",
    },
}
