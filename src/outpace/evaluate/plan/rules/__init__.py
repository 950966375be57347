"""What makes a plan unable to answer its question, one subject a file; `plan/lint.py` runs all."""
