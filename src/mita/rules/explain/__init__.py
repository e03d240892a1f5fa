"""Why a job does not run: `evidence` is what is known, `reasons.explain` makes reasons of it, and
`waiting` has the reasons of jobs that wait."""
