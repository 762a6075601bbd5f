"""What the user wants: one model of settings, read from a file, the environment and the command line."""
