"""Streamlit pages over ``results``: they read its views and nothing else, and can write nothing.

``python -m dashboard --store PATH`` serves them; ``dashboard/app.py`` is the script Streamlit runs.
"""
