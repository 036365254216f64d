"""Change the rows that meet a condition: delete, update, or replace them."""
