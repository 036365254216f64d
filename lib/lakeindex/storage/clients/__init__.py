"""What clients of stores are given: names, keys, time limits, and threads of their own process."""
