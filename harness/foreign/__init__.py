"""Histories that others wrote, as operations for `pyporcupine`.

A reader makes events or operations of a file's text and never stops at a line that it cannot
read: what is wrong with it is kept beside the rest. Files are opened by the command alone.
"""
