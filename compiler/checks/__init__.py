"""Is it right? Every rule of the language that a schema cannot hold, step by step."""
