"""Measuring: who is asked what in which order, and what is written down of it.

schedule.py   blocks of groups: pure, from the plan and the prompts
blocks.py     asks them, arm next to arm, and goes on where a killed process stopped
shares.py     what an arm's turns of a block took, added up to a `Window`
traffic.py    open loops: requests that come when they come
"""
