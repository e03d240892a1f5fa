"""Lifespan, dependencies, middleware and blueprints: how Mita fits into an application."""
