"""Operations that change rows which somebody chooses: by a condition, or because a key is stored more than once."""
