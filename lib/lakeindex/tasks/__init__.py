"""What runs tasks: the runner's contract, the threads of this process, memory and what a task cost."""
