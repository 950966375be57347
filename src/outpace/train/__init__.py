"""Train a drafter from its target alone: corpus, features, training, evaluation, export.

Each phase reads files and writes files, so that any of them can be stopped and taken up again.
"""
