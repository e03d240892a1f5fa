"""The data types. They are frozen: they hold values and do nothing."""
