"""Measuring: what is asked (workload), when (arrivals), of whom (client), what came (record).

`run` walks through the blocks of a plan, `summary` says what the records amount to.
"""
