"""Why a job does not run."""
