"""The demo: a support agent that follows a script, so that every kind of action happens without a key or a network.

`play` in `script.py` runs it; `story.py` holds every word that is said, `agents.py` the agents and their tools.
"""
