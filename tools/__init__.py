"""Scripts for people who work on Mita: pictures of the docs, and counts of the code."""
