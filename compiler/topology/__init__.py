"""From checked flows to subtopologies, laid out in stages of Python and SQL, and described."""
