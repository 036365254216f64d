"""How the keys of stored rows are spelled: compared with their columns, found, bound."""
