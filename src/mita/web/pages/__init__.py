"""The pages of the dashboard, one module each, with the acts that their forms send."""
