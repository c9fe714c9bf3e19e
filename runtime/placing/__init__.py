"""Which client runs which task: the question an assignor is asked, and what is made of its answer."""
