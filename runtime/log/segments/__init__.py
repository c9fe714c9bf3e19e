"""How records lie in files, and how commits list them: for logs that are made of files, and nobody above the log."""
