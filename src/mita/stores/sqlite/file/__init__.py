"""The database file: its clock, its statements, and whether it is a file of Mita."""
