"""The worker: claims jobs, runs them, puts them down, keeps their leases, and takes over those of
workers that died."""
