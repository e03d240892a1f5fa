"""The dashboard: pages over HTTP that show a store and act on it."""
