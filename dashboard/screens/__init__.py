"""One script a page; ``dashboard/app.py`` registers them and Streamlit runs the one that is open.

The folder is not called ``pages``: Streamlit would serve such a folder's scripts without ``app.py``.
"""
