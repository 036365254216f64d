"""How results look: tables of texts and numbers, for a terminal, a pipe and a notebook alike."""
