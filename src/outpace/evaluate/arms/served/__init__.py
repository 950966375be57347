"""Servers of our own: started, waited for, stopped with everything they started.

managed.py   the server, and the arm in front of it
keeper.py    runs it, and ends it when whoever started it is gone
"""
