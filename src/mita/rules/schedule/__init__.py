"""When a repeat fires."""
