"""Pure decisions: no clock, no chance, no I/O, no await. What they need to know is handed to
them."""
