"""Reading for people: the rows of stores and the records of topics, as of the last commit."""
