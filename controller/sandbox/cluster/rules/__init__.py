"""What the API server refuses: one module a kind of object, each a list of causes for what is wrong."""
