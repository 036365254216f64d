"""Catalogs that know a table by name: what they should say of it, what they say, and how the two are made to agree.

A sync is a step after the commit. It reads the table and writes to the catalog only, so whatever goes wrong in it, the
commit stands; it is repeated, by the next write or by hand, until a look finds no difference.
"""
