"""No models. Django tells an app about `manage.py migrate` only if it has this module (`apps`)."""
