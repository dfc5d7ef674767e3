"""The nouns of the cluster: pure records, limits and errors that every other package shares."""
